"""What script/demo shows once the tools are built.

Usage: demo_run.py FOLDER (for the files that it makes; the tools on PATH)"""
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

TOLERANCE = 1e-4  # relative to the largest value of an output
# One text line of 48 x 320 pixels; the model leaves these sizes open.
FLAGS = ["--target=host", "--dim", "x:0=1", "--dim", "x:2=48", "--dim", "x:3=320"]


def show(title, *command):
    """Runs a command with its output on the terminal."""
    print("\n== %s\n$ %s" % (title, " ".join(map(str, command))), flush=True)
    subprocess.run([str(c) for c in command], check=True)


def show_weights(title, *command):
    """The table of weights, without the rows of small tensors, which stay
    resident and are many."""
    print("\n== %s\n$ %s" % (title, " ".join(map(str, command))), flush=True)
    done = subprocess.run([str(c) for c in command], check=True, text=True,
                          stdout=subprocess.PIPE)
    small = 0
    for line in done.stdout.splitlines():
        if " small " in line:
            small += 1
        else:
            print(line)
    print("(and %d small tensors)" % small, flush=True)


def ask(*command):
    """A command's JSON; its remarks are shown only where it fails."""
    done = subprocess.run([str(c) for c in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        print(done.stderr, end="", file=sys.stderr)
        done.check_returncode()
    return json.loads(done.stdout)


def recognizer():
    package = importlib.util.find_spec("rapidocr_onnxruntime")
    return (Path(package.submodule_search_locations[0]) / "models" /
            "ch_PP-OCRv4_rec_infer.onnx")


def largest_error(got, wanted):
    if got.shape != wanted.shape or not np.isfinite(got).all():
        return float("inf")
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def compare(model, inputs, outputs):
    """Largest relative error of all outputs, on the inputs that were fed."""
    session = onnxruntime.InferenceSession(
        str(model), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    with np.load(inputs) as fed, np.load(outputs) as got:
        wanted = session.run(names, dict(fed))
        return max(largest_error(got[n], w) for n, w in zip(names, wanted))


def main(folder):
    model, off = recognizer(), folder / "recognizer.off"
    inputs, outputs = folder / "inputs.npz", folder / "outputs.npz"
    weights = sum(w["bytes"] for w in
                  ask("offload-opt", model, *FLAGS, "--list-weights=json"))
    budget = max(weights // 2, ask("offload-opt", model, *FLAGS, "--plan=json")
                 ["smallest_device_memory_bytes"])
    print("\n%s: %d operators, %.1f MB of weights; device memory for this run: "
          "%.1f MB" % (model.name, len(onnx.load(model).graph.node),
                       weights / 1e6, budget / 1e6))
    memory = "--device-memory=%d" % budget

    show("the plan: budgets, and what each moves",
         "offload-opt", model, *FLAGS, "--plan")
    show("compile", "offload-opt", model, "-o", off, *FLAGS, memory)
    show_weights("each weight: resident or streamed, and why", "offload-opt",
                 model, *FLAGS, memory, "--list-weights")
    random = np.random.RandomState(0)
    np.savez(inputs, x=random.uniform(-1, 1, (1, 3, 48, 320)).astype(np.float32))
    show("run on random inputs alone", "offload-run", off, "--device=host",
         "--random-inputs", "7", "--repeat", "3", "--stats=text")
    show("run on the inputs that ONNX Runtime gets too", "offload-run", off,
         "--device=host", "--inputs", inputs, "--output", outputs)
    error = compare(model, inputs, outputs)
    print("\nlargest difference from ONNX Runtime: %.1e of the largest value "
          "(allowed: %.0e): %s" % (error, TOLERANCE,
                                   "agrees" if error <= TOLERANCE else "WRONG"))
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except subprocess.CalledProcessError as error:
        sys.exit("%s failed with exit code %d" % (error.cmd[0],
                                                  error.returncode))
