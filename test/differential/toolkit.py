"""Runs the two tools for the Python judges.

OFFLOAD_BUILD names the build tree whose tools are judged (script/test sets it).
Every function raises ToolError with the tool's own words where it fails, so a
judge never mistakes a refusal for a result."""
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

BUILD = Path(os.environ.get("OFFLOAD_BUILD", Path(__file__).parents[2] / "build" / "release"))
# Whether judges that sample take all their cases.
FULL = os.environ.get("OFFLOAD_FULL", "") not in ("", "0")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "offload"


class ToolError(RuntimeError):
    def __init__(self, args, code, stderr):
        super().__init__("%s: exit code %d: %s" % (" ".join(map(str, args)), code, stderr.strip()))
        self.code, self.stderr = code, stderr


def tool(name):
    path = BUILD / "bin" / name
    if not path.exists():
        raise RuntimeError("no %s in %s: build it first, or set OFFLOAD_BUILD" % (name, BUILD))
    return str(path)


def call(name, *args, env=None, timeout=600):
    """Standard output and error of a tool that must succeed. One thread a kernel:
    on a busy machine a second one mostly spins."""
    command = [tool(name), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})
    if done.returncode:
        raise ToolError([name, *args], done.returncode, done.stderr)
    return done.stdout, done.stderr


def refused(name, *args):
    """(exit code, standard error) of a tool that must refuse."""
    try:
        out, err = call(name, *args)
    except ToolError as error:
        return error.code, error.stderr
    raise AssertionError("%s %s was not refused" % (name, " ".join(map(str, args))))


@dataclass
class Result:
    outputs: dict
    stats: dict = field(default_factory=dict)
    stderr: str = ""


def compile_model(model, off, *flags, target="host"):
    return call("offload-opt", model, "-o", off, "--target=" + target, *flags)


def plan(model, *flags, target="host"):
    out, _ = call("offload-opt", model, "--plan=json", "--target=" + target, *flags)
    return json.loads(out)


def list_weights(model, *flags):
    """Of a `.off`: what its plan says. Flags that plan make a new plan."""
    out, _ = call("offload-opt", model, "--list-weights=json", *flags)
    return json.loads(out)


def save_feeds(feeds, path):
    """An .npz of named arrays."""
    np.savez(path, **{name: np.asarray(value) for name, value in feeds.items()})


def typed(array):
    """A .npz names bfloat16 by its two bytes alone."""
    import ml_dtypes
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array


def load_arrays(path):
    """Arrays by name, of an .npz."""
    with np.load(path) as data:
        return {name: typed(data[name]) for name in data.files}


def run(off, feeds, *flags, device="host", env=None):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_feeds(feeds, folder / "in.npz")
        arguments = [off, "--device=" + device, "--output", folder / "out.npz", "--stats=json", *flags]
        if feeds:
            arguments += ["--inputs", folder / "in.npz"]
        out, err = call("offload-run", *arguments, env=env)
        return Result(load_arrays(folder / "out.npz"), json.loads(out), err)


def onnxruntime_session(path):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_onnxruntime(path, feeds):
    """Outputs by name."""
    session = onnxruntime_session(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def relative_error(got, want):
    """Largest difference over the largest magnitude; infinite where shapes,
    or what is finite, differ."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return float("inf")
    if want.dtype.kind in "iub":
        return 0.0 if np.array_equal(got, want) else float("inf")
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return float("inf")
    if want.size == 0:
        return 0.0
    finite = np.isfinite(want)
    scale = max(float(np.abs(want[finite]).max(initial=0.0)), 1e-30)
    return float(np.abs(got[finite] - want[finite]).max(initial=0.0)) / scale


def same_bits(a, b):
    return set(a) == set(b) and all(
        a[k].shape == b[k].shape and a[k].dtype == b[k].dtype and a[k].tobytes() == b[k].tobytes() for k in a)
