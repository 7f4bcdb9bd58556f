"""Judges the card of this machine; started by script/gpu-test.

    gpu_test.py FOLDER [PART...] [--device=cuda:0] [--models=NAME,NAME]

Every case is counted by its name, and has one line. Kernels are judged by the same
kernels on the host, models by what the host device gave where the bundle was made
(gpu_models.py). With --device=host the parts that need no card can be tried where
there is none."""
import argparse
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "script"), str(ROOT / "test" / "differential"), str(ROOT / "test")]

import gpu_gtest  # noqa: E402
import gpu_models  # noqa: E402
import gpu_unpack  # noqa: E402
from gpu_judge import Judge, find_tool  # noqa: E402


# --------------------------------------------------------------------- kernels
def difference(got, want, toolkit):
    if got.dtype != want.dtype:
        return float("inf")
    if got.dtype.itemsize == 1 and got.dtype.kind == "V":
        got, want = got.astype(np.int32), want.astype(np.int32)
    return toolkit.relative_error(got, want)


def updates(judge, card):
    """Bit for bit as numpy rounds."""
    import test_kernels
    case = test_kernels.Kernels("test_updates_round_every_operation")
    case.probe = card
    try:
        case.test_updates_round_every_operation()
        judge.count("updates")
    except Exception as error:  # an assertion, or what the kernel throws
        judge.count("updates", str(error)[:300])


def kernels(judge):
    import kernel_cases
    import test_kernels
    import toolkit
    host, card = test_kernels.Probe(), test_kernels.Probe(cuda=judge.on_card)
    over = []
    for case in kernel_cases.CASES:
        node = case.model().graph.node[0]
        try:
            want, _ = host.run(node, case.opset, case.inputs, case.outputs)
            got, figures = card.run(node, case.opset, case.inputs, case.outputs)
        except RuntimeError as error:
            judge.count("kernel " + case.name, str(error))
            continue
        worst = max([difference(a, b, toolkit) for a, b in zip(got, want)], default=0)
        problem = "" if worst <= max(case.tolerance, 1e-4) else "differs by %g" % worst
        if judge.on_card and figures["scratch"] > figures["planned_scratch"]:
            over.append((case.op, figures["scratch"], figures["planned_scratch"]))
            problem = problem or "scratch %d, planned %d" % over[-1][1:]
        judge.count("kernel " + case.name, problem)
    updates(judge, card)
    for op in sorted({o[0] for o in over}):
        print("scratch over plan: %s by up to %d bytes" % (op, max(s - p for o, s, p in over if o == op)))


# ---------------------------------------------------------------------- errors
# Between what a context alone takes of a card and the least that any file needs.
SCARCE_BYTES = 730 << 20
HOLD = """
import sys, torch
index, left = int(sys.argv[1]), int(sys.argv[2])
torch.zeros(1, device=torch.device("cuda", index))
free, _ = torch.cuda.mem_get_info(index)
held = torch.empty(free - left, dtype=torch.uint8, device=torch.device("cuda", index))
print("held", torch.cuda.mem_get_info(index)[0], flush=True)
sys.stdin.read()
"""


def refused(judge, name, patterns, off, *flags, device=None):
    """Exit code 1, one line on standard error in which all patterns are found, and no output is written."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.npz"
        code, text, err = judge.call(judge.program("offload-run"), off, "--output", out,
                                     "--device=" + (device or judge.device), *flags)
        written = sorted(p.name for p in Path(scratch).iterdir())
    lines = err.strip().splitlines()
    if code != 1 or len(lines) != 1:
        judge.count(name, "exit code %s, %d lines: %s" % (code, len(lines), err[-1500:]))
    elif not all(re.search(p, lines[0]) for p in patterns):
        judge.count(name, "the line is: " + lines[0])
    else:
        judge.count(name, "%s were written" % written if written or text else "", lines[0])


def bad_feeds(folder, scratch):
    """The model's feeds with one id far out of range; None where it has none."""
    with np.load(folder / "feeds.npz") as data:
        feeds = {name: data[name] for name in data.files}
    if "ids" not in feeds:
        return None
    feeds["ids"] = feeds["ids"].copy()
    feeds["ids"].flat[3] = 10 ** 6
    np.savez(scratch / "bad.npz", **feeds)
    return scratch / "bad.npz"


def too_little_room(judge, off):
    """While another process holds most of the card."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, judge.device.split(":")[1], str(SCARCE_BYTES)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        told = holder.stdout.readline()
        if not told.startswith("held"):
            judge.count("too little room", "nothing could be held: " + holder.stderr.read()[-500:])
            return
        refused(judge, "too little room (%s of %d bytes left)" % (told.split()[1], SCARCE_BYTES),
                [r"needs [0-9.]+ [MG]iB of " + judge.device, r"which has [0-9.]+ [MG]iB free"], off, "--random-inputs", 1)
    finally:
        holder.kill()
        holder.communicate()
    try:
        judge.run(off)
        judge.count("room again")
    except RuntimeError as error:
        judge.count("room again", error)


def errors(judge):
    off = judge.models()[0] / "resident.off"
    refused(judge, "no such card", ["cuda:99"], off, "--random-inputs", 1, device="cuda:99")
    files = judge.bundle / "sessions"
    refused(judge, "computed index out of range", [r"\[lookup\] Gather on compute"], files / "computed.off",
            "--inputs", files / "computed.bad.npz")
    refused(judge, "sizes that do not fit", [r"\[product\] MatMul on compute"], files / "unequal.off",
            "--inputs", files / "unequal.bad.npz")
    with tempfile.TemporaryDirectory() as scratch:
        for folder in judge.samples():
            bad = bad_feeds(folder, Path(scratch))
            for file in ("resident.off", "smallest.off") if bad else ():
                refused(judge, "feed out of range, %s %s" % (folder.name, file), [r"\[\S+\] \w+ on (compute|host)", "range"],
                        folder / file, "--inputs", bad)
    if judge.on_card:
        too_little_room(judge, off)


# ------------------------------------------------------------------- sanitizer
SANITIZERS = {"memcheck": ("--tool", "memcheck", "--report-api-errors", "no"), "initcheck": ("--tool", "initcheck")}


def sanitizer_problem(judge, tool, flags, off):
    with tempfile.TemporaryDirectory() as scratch:
        code, out, err = judge.call(tool, *flags, judge.program("offload-run"), off, "--device=" + judge.device, "--inputs",
                                    off.parent / "feeds.npz", "--output", Path(scratch) / "out.npz", seconds=280)
    text = out + err
    found = re.search(r"ERROR SUMMARY: (\d+) error", text)
    if code == 0 and found and found[1] == "0":
        return ""
    if not found:
        return "exit code %s, no summary: %s" % (code, text[-1500:])
    told = [line.lstrip("= ") for line in text.splitlines() if line.startswith("=========")]
    return "exit code %s, %s errors; first: %s" % (code, found[1], " | ".join([t for t in told if t][1:12]))


def is_seen(name, folder):
    """initcheck does not see what 16-bit products of this card's generation write: it reports them in PyTorch alone, too."""
    return name != "initcheck" or "float32" in folder.name


def sanitizer(judge):
    """compute-sanitizer over one schedule of a model of each kind, initcheck of those that compute in float32."""
    tool = find_tool("compute-sanitizer", "/usr/local/cuda/bin")
    if not tool:
        print("compute-sanitizer: not there")
        return
    jobs = [(name, folder) for folder in judge.samples() for name in SANITIZERS if is_seen(name, folder)]
    calls = [functools.partial(sanitizer_problem, judge, tool, SANITIZERS[name], folder / "smallest.off")
             for name, folder in jobs]
    for (name, folder), (problem, error) in zip(jobs, judge.beside(calls)):
        judge.count("%s of %s" % (name, folder.name), error or problem)


PARTS = {"conformance": gpu_gtest.conformance, "sessions": gpu_gtest.sessions, "cards": gpu_gtest.cards,
         "errors": errors, "kernels": kernels, "models": gpu_models.models, "weights": gpu_models.weights,
         "timeline": gpu_models.timeline, "numerics": gpu_models.numerics, "sanitizer": sanitizer}


def run_part(judge, name):
    """A part that breaks off is a failure, and the next one has its turn."""
    start, passed, failed = time.monotonic(), judge.passed, len(judge.failed)
    try:
        PARTS[name](judge)
    except Exception:
        judge.count(name, traceback.format_exc()[-1500:])
    print("== %s: %d passed, %d failed, %.0f s" % (
        name, judge.passed - passed, len(judge.failed) - failed, time.monotonic() - start))


def main():
    parser = argparse.ArgumentParser(prog="gpu-test")
    parser.add_argument("bundle", metavar="FOLDER")
    parser.add_argument("parts", metavar="PART", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--models", default="", help="names, with commas between them")
    options = parser.parse_intermixed_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error("no part %s; there are: %s" % (", ".join(sorted(unknown)), ", ".join(PARTS)))
    bundle = Path(options.bundle).resolve()
    os.environ["OFFLOAD_BUILD"] = str(bundle)  # before toolkit is imported
    gpu_unpack.unpack(bundle)
    judge = Judge(bundle, options.device, [name for name in options.models.split(",") if name])
    for name in options.parts or PARTS:
        run_part(judge, name)
    for line in judge.failed[:40]:   # once more, where the end of a log is all that is seen
        print("FAILED " + line[:200])
    print("%d passed, %d failed" % (judge.passed, len(judge.failed)))
    return 1 if judge.failed or not judge.passed else 0


if __name__ == "__main__":
    sys.exit(main())
