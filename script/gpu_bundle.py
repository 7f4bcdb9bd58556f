"""Gathers what script/gpu-test and bench/performance need; started by
script/gpu-bundle.

BUILD FOLDER [MODEL...]: programs go to FOLDER/bin and FOLDER/lib, each model to
FOLDER/models/NAME: its file, one `.off` for each budget and depth, feeds, and the
outputs of the host device. BUILD FOLDER --bench: only what bench/performance needs,
which makes and compiles its models itself."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("bin/offload-run", "bin/device-conformance-cuda", "lib/kernel-probe.so")
BENCH_PROGRAMS = ("bin/offload-opt", "bin/session-driver", "bin/load-baseline")
SCRIPTS = ("script/gpu-test", "script/gpu_test.py", "test/differential/kernel_cases.py",
           "test/differential/test_kernels.py", "test/differential/toolkit.py", "test/trace_judge.py",
           "include/offload/OffFormat/Operators.def")
SMALL = ("ocr-classifier", "ocr-detector", "ocr-recognizer", "magika", "gpt2-opset18", "gpt2-opset23",
         "gpt2-opset20-half", "gpt2-opset21-dynamic",
         "mobilenet-v3-static-float32", "mobilenet-v2-dynamic-float16", "mobilenet-v3-dynamic-bfloat16",
         "vit-decomposed-static-float16", "vit-attention-static-bfloat16",
         "bert-attention-dynamic-float32", "bert-eager-static-float16", "bert-decomposed-dynamic-bfloat16",
         "gpt2-attention-dynamic-bfloat16",
         "llama-attention-dynamic-float32", "llama-decomposed-dynamic-float16", "llama-attention-static-bfloat16")

# Of test/differential/quantized_models.py.
QUANTIZED = ("gpt2-attention-static-float16+int4-block32", "mobilenet-v3-static-float32+int8-axis",
             "llama-attention-static-bfloat16+int4-block32-zero")


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


def gather_model(toolkit, name, folder):
    import models
    import numpy as np
    import onnx
    import quantized_models
    model = (quantized_models if "+" in name else models).get(name)
    folder.mkdir(parents=True)
    # Weights in a file of their own, which all schedules then share.
    onnx.save_model(onnx.load(model.path), folder / "model.onnx", save_as_external_data=True,
                    location="model.data", size_threshold=1024)
    feeds = model.feeds(5)
    toolkit.save_feeds(feeds, folder / "feeds.npz")
    made = compile_on_card(toolkit, model, folder)
    result = toolkit.run(folder / made[0]["file"], feeds)
    np.savez(folder / "expected.npz", **result.outputs)
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


def leave_copies_out(folder):
    """Files that are equal to an earlier one; gpu_test.py makes them again."""
    seen, copies = {}, {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        first = seen.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), name)
        if first != name:
            copies[name] = first
            path.unlink()
    (folder / "copies.json").write_text(json.dumps(copies))


def gather_judge(build, folder, names):
    os.environ["OFFLOAD_BUILD"] = str(build)
    sys.path.insert(0, str(ROOT / "test" / "differential"))
    import toolkit
    gather_programs(build, folder, PROGRAMS)
    gather_scripts(folder, SCRIPTS)
    for name in names or SMALL + QUANTIZED:
        gather_model(toolkit, name, folder / "models" / name)
        print(name, flush=True)
    leave_copies_out(folder)


def main(build, folder, *names):
    build, folder = Path(build).resolve(), Path(folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    gather_bench(build, folder)
    if names != ("--bench",):
        gather_judge(build, folder, names)
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    print("%s: %.1f MiB" % (folder, size / 2 ** 20))


if __name__ == "__main__":
    main(*sys.argv[1:])
