"""Gathers what script/gpu-test and bench/performance need; started by
script/gpu-bundle.

BUILD FOLDER [MODEL...]: programs go to FOLDER/bin and FOLDER/lib, each model to
FOLDER/models/NAME: its file, one `.off` for each budget and depth, feeds, and the
outputs of the host device, which ONNX Runtime or PyTorch judges first; small graphs
for sessions to FOLDER/sessions. What is twice there, or smaller when packed, is made
whole again by gpu_unpack.py; what is made out of a bundle stays where it is and is
not packed. BUILD FOLDER --bench: only what bench/performance needs, which makes and
compiles its models itself."""
import concurrent.futures
import fnmatch
import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import gpu_unpack

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("bin/offload-run", "bin/device-conformance-cuda", "bin/session-conformance", "bin/run-many",
            "lib/kernel-probe.so", "lib/two-cards.so")
BENCH_PROGRAMS = ("bin/offload-opt", "bin/session-driver", "bin/load-baseline")
SCRIPTS = ("script/gpu-test", "script/gpu_test.py", "script/gpu_judge.py", "script/gpu_models.py",
           "script/gpu_gtest.py", "script/gpu-bundle", "script/gpu_bundle.py", "script/gpu_unpack.py",
           "script/torch-libraries",
           "test/trace_judge.py", "include/offload/OffFormat/Operators.def", "test/differential/toolkit.py",
           *("test/differential/%s.py" % name for name in (
               "families", "models", "narrow_models", "quantized_models", "session_files", "kernel_cases",
               "test_kernels", "test_quantized_models")))
# Essentials first, so that a prefix of them is a bundle in itself: each family, each
# type, trained models, both attention forms, static and dynamic, then the rest. The
# resnets are those of narrow_models.py; names with + are of quantized_models.py.
SMALL = ("gpt2-opset18", "llama-attention-dynamic-float32", "bert-eager-static-float16",
         "vit-attention-static-bfloat16", "mobilenet-v3-static-float32", "resnet-narrow-opset18-static-float32",
         "gpt2-attention-static-float16+int4-block32", "ocr-detector", "ocr-classifier", "magika",
         "resnet-narrow-opset23-dynamic-float16", "resnet-narrow-opset23-static-bfloat16",
         "bert-attention-dynamic-float32", "gpt2-attention-dynamic-bfloat16", "mobilenet-v2-dynamic-float16",
         "llama-decomposed-dynamic-float16", "vit-decomposed-static-float16", "mobilenet-v3-dynamic-bfloat16",
         "bert-decomposed-dynamic-bfloat16", "llama-attention-static-bfloat16", "gpt2-opset23",
         "mobilenet-v3-static-float32+int8-axis", "llama-attention-static-bfloat16+int4-block32-zero",
         "ocr-recognizer", "gpt2-opset20-half", "gpt2-opset21-dynamic")
FEEDS_SEED = 5
PACKED_FROM_BYTES = 16 << 10


def find(build, name):
    for path in (build / name, build / Path(name).name):
        if path.exists():
            return path
    found = sorted(build.glob("**/" + Path(name).name))
    if not found:
        sys.exit("no %s in %s: build it first" % (name, build))
    return found[0]


def gather_programs(build, folder, names):
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(find(build, name), target)
        if not gpu_unpack.is_bundle(build):
            subprocess.run(["strip", target], check=True)


def compile_on_card(toolkit, model, folder):
    """One `.off` for each budget and depth; names by what they were asked for."""
    plan = toolkit.plan(folder / "model.onnx", *model.flags, target="cuda")
    smallest = plan["smallest_device_memory_bytes"]
    resident = max(row["device_memory_bytes"] for row in plan["rows"])
    made = []
    for label, budget, depth in (("resident", resident, 2), ("half", (smallest + resident) // 2, 2),
                                 ("smallest", smallest, 2), ("deep", (smallest + resident) // 2, 4)):
        off = folder / (label + ".off")
        toolkit.compile_model(folder / "model.onnx", off, "--device-memory=%d" % budget, "--depth=%d" % depth,
                              *model.flags, target="cuda")
        made.append({"file": off.name, "device_memory": budget})
    return made


def find_model(name, scratch):
    """The model, and its right outputs."""
    import models
    import narrow_models
    import test_quantized_models
    import toolkit
    if name in narrow_models.NARROW:
        return narrow_models.get(name, scratch)
    model = (test_quantized_models.quantized_models if "+" in name else models).get(name)
    feeds = model.feeds(FEEDS_SEED)
    if "+" in name:
        return model, test_quantized_models.reference(model, feeds)[0]
    return model, model.eager(FEEDS_SEED) if model.eager else toolkit.run_onnxruntime(model.path, feeds)


def gather_model(name, folder):
    import numpy as np
    import onnx
    import toolkit
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        model, right = find_model(name, scratch)
        # Weights in a file of their own, which all schedules then share.
        onnx.save_model(onnx.load(model.path), folder / "model.onnx", save_as_external_data=True,
                        location="model.data", size_threshold=1024)
    feeds = model.feeds(FEEDS_SEED)
    toolkit.save_feeds(feeds, folder / "feeds.npz")
    made = compile_on_card(toolkit, model, folder)
    result = toolkit.run(folder / made[0]["file"], feeds)
    for output, value in right.items():
        error = toolkit.relative_error(result.outputs[output], value)
        if not error <= model.tolerance:
            raise RuntimeError("%s: the host device's '%s' differs by %g" % (name, output, error))
    np.savez_compressed(folder / "expected.npz", **result.outputs)
    (folder / "model.json").write_text(json.dumps({"name": name, "tolerance": model.tolerance, "schedules": made}))
    (folder / "model.onnx").unlink()


def gather_models(names, folder):
    """Side by side. Names of those that could not be made, with the reasons."""
    failed = {}
    with concurrent.futures.ProcessPoolExecutor(
            min(os.cpu_count(), 16), multiprocessing.get_context("spawn"), one_thread) as pool:
        jobs = {name: pool.submit(gather_model, name, folder / "models" / name) for name in names}
        for name, job in jobs.items():
            try:
                job.result()
            except Exception as error:   # as many kinds as libraries have a part in it
                failed[name] = "%s: %s" % (type(error).__name__, error)
                shutil.rmtree(folder / "models" / name, ignore_errors=True)
    return failed


def one_thread():
    """Of a process beside others like it."""
    import torch
    torch.set_num_threads(1)


def resolve(words):
    """Names for names, patterns and `crossed`."""
    import models
    import narrow_models
    import test_quantized_models
    known = [*models.MODELS, *narrow_models.NARROW]
    names = []
    for word in words:
        found = list(test_quantized_models.crossed()) if word == "crossed" else (
            [word] if "+" in word else fnmatch.filter(known, word))
        if not found:
            sys.exit("no model is named %s" % word)
        names += [name for name in found if name not in names]
    return names


def gather_scripts(folder, names):
    """So that the folder is all that the other machine needs."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)


def gather_bench(build, folder):
    gather_programs(build, folder, BENCH_PROGRAMS)
    gather_scripts(folder, ["bench/performance", "script/gpu_unpack.py", "script/torch-libraries"] + [
        str(p.relative_to(ROOT)) for p in sorted((ROOT / "bench").glob("*.py"))])


def files_in(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file())


def leave_copies_out(folder):
    """Files that are equal to an earlier one."""
    seen, copies = {}, {}
    for path in files_in(folder):
        name = str(path.relative_to(folder))
        first = seen.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), name)
        if first != name:
            copies[name] = first
            path.unlink()
    return copies


def pack(folder):
    """Large files that get smaller by it; with their modes."""
    packed = {}
    for path in files_in(folder):
        whole = path.read_bytes()
        if len(whole) < PACKED_FROM_BYTES or path.suffix in (".npz", ".py"):
            continue
        small = zlib.compress(whole, 9)
        if len(small) < 0.97 * len(whole):
            packed[str(path.relative_to(folder))] = path.stat().st_mode & 0o777
            path.with_name(path.name + ".z").write_bytes(small)
            path.unlink()
    return packed


def mebibytes(paths):
    return sum(p.stat().st_size for p in paths) / 2 ** 20


def gather_judge(build, folder, names, is_carried):
    import session_files
    gather_programs(build, folder, PROGRAMS)
    gather_scripts(folder, SCRIPTS)
    session_files.make(folder / "sessions", "cuda")
    (folder / "models").mkdir()
    failed = gather_models(names, folder)
    packing = {"copies": leave_copies_out(folder), "packed": pack(folder)} if is_carried else {"copies": {}, "packed": {}}
    (folder / "packing.json").write_text(json.dumps(packing))
    for name in names:
        print(failed.get(name) or "%6.2f MiB %s" % (mebibytes(files_in(folder / "models" / name)), name))
    for name in ("bin", "lib", "sessions"):
        print("%6.2f MiB %s" % (mebibytes(files_in(folder / name)), name))
    return failed


def main(build, folder, *words):
    build, folder = Path(build).resolve(), Path(folder).resolve()
    if folder in (build, *build.parents, ROOT, *ROOT.parents):
        sys.exit("%s would be removed: name another folder to gather in" % folder)
    os.environ["OFFLOAD_BUILD"] = str(build)   # before toolkit is imported
    sys.path.insert(0, str(ROOT / "test" / "differential"))
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)   # of processes side by side
    names = [] if words in (("--no-models",), ("--bench",)) else resolve(words or SMALL)
    is_carried = not gpu_unpack.is_bundle(build)
    gpu_unpack.unpack(build)
    for name in BENCH_PROGRAMS + (() if words == ("--bench",) else PROGRAMS):
        find(build, name)   # before anything is removed
    shutil.rmtree(folder, ignore_errors=True)
    gather_bench(build, folder)
    failed = {} if words == ("--bench",) else gather_judge(build, folder, names, is_carried)
    print("%s: %.1f MiB%s" % (folder, mebibytes(files_in(folder)), failed and ", %d models failed" % len(failed) or ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
