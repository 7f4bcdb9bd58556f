"""Gathers what script/gpu-test and bench/performance need; started by
script/gpu-bundle.

BUILD FOLDER [MODEL...]: programs go to FOLDER/bin and FOLDER/lib, each model to
FOLDER/models/NAME: its file, one `.off` for each budget and depth, feeds, and the
outputs of the host device; small graphs for sessions to FOLDER/sessions. What is
twice there, or smaller when packed, is made whole again by gpu_unpack.py. BUILD
FOLDER --bench: only what bench/performance needs, which makes and compiles its
models itself."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("bin/offload-run", "bin/device-conformance-cuda", "bin/session-conformance", "lib/kernel-probe.so")
BENCH_PROGRAMS = ("bin/offload-opt", "bin/session-driver", "bin/load-baseline")
SCRIPTS = ("script/gpu-test", "script/gpu_test.py", "script/gpu_judge.py", "script/gpu_models.py",
           "script/gpu_unpack.py", "test/differential/kernel_cases.py", "test/differential/test_kernels.py",
           "test/differential/toolkit.py", "test/trace_judge.py", "include/offload/OffFormat/Operators.def")
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
    """And its right outputs, where no other judge of this repository has seen it."""
    import models
    import narrow_models
    import quantized_models
    if name in narrow_models.NARROW:
        return narrow_models.get(name, scratch)
    return (quantized_models if "+" in name else models).get(name), None


def gather_model(toolkit, name, folder):
    import numpy as np
    import onnx
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
    for output, value in (right or {}).items():
        if not toolkit.relative_error(result.outputs[output], value) <= model.tolerance:
            sys.exit("%s: the host device's '%s' is wrong" % (name, output))
    np.savez_compressed(folder / "expected.npz", **result.outputs)
    (folder / "model.json").write_text(json.dumps({"name": name, "tolerance": model.tolerance, "schedules": made}))
    (folder / "model.onnx").unlink()


def gather_scripts(folder, names):
    """So that the folder is all that the other machine needs."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)


def gather_bench(build, folder):
    gather_programs(build, folder, BENCH_PROGRAMS)
    gather_scripts(folder, ["bench/performance"] + [
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


def gather_judge(build, folder, names):
    os.environ["OFFLOAD_BUILD"] = str(build)
    sys.path.insert(0, str(ROOT / "test" / "differential"))
    import session_files
    import toolkit
    gather_programs(build, folder, PROGRAMS)
    gather_scripts(folder, SCRIPTS)
    session_files.make(folder / "sessions", "cuda")
    for name in names or SMALL:
        gather_model(toolkit, name, folder / "models" / name)
    (folder / "packing.json").write_text(json.dumps({"copies": leave_copies_out(folder), "packed": pack(folder)}))
    for name in names or SMALL:
        print("%6.2f MiB %s" % (mebibytes(files_in(folder / "models" / name)), name))
    for name in ("bin", "lib", "sessions"):
        print("%6.2f MiB %s" % (mebibytes(files_in(folder / name)), name))


def main(build, folder, *names):
    build, folder = Path(build).resolve(), Path(folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    gather_bench(build, folder)
    if names != ("--bench",):
        gather_judge(build, folder, names)
    print("%s: %.1f MiB" % (folder, mebibytes(files_in(folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
