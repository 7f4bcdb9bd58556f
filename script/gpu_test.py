"""Judges the card of this machine; started by script/gpu-test.

Every case is counted by its name. Kernels are judged by the same kernels on the
host, models by what the host device gave where the bundle was made; bits must not
depend on budget, depth, delays or poison."""
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "test" / "differential"), str(ROOT / "test")]


class Judge:
    def __init__(self, bundle):
        self.bundle, self.passed, self.failed = bundle, 0, []

    def count(self, name, problem=""):
        if problem:
            self.failed.append("%s: %s" % (name, problem))
            print("FAIL %s: %s" % (name, problem))
        else:
            self.passed += 1

    def call(self, *command, seconds=300):
        """Exit code, standard output, standard error."""
        try:
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=seconds)
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            return None, str(late.stdout), "took over %d s" % seconds


def conformance(judge):
    report = judge.bundle / "conformance.json"
    code, out, err = judge.call(judge.bundle / "bin/device-conformance-cuda", "--gtest_output=json:%s" % report,
                                seconds=120)
    seen = 0
    if report.exists():
        for suite in json.loads(report.read_text())["testsuites"]:
            for case in suite["testsuite"]:
                seen += 1
                failures = case.get("failures", [])
                judge.count(case["name"], failures[0]["failure"].replace("\n", " ")[:300] if failures else "")
    if code != 0 or not seen:
        judge.count("device-conformance-cuda", "exit code %s, %d cases; %s" % (code, seen, (out + err)[-2000:]))


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
    host, card = test_kernels.Probe(), test_kernels.Probe(cuda=True)
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
        if figures["scratch"] > figures["planned_scratch"]:
            over.append((case.op, figures["scratch"], figures["planned_scratch"]))
            problem = problem or "scratch %d, planned %d" % over[-1][1:]
        judge.count("kernel " + case.name, problem)
    updates(judge, card)
    for op in sorted({o[0] for o in over}):
        print("scratch over plan: %s by up to %d bytes" % (op, max(s - p for o, s, p in over if o == op)))


def arrays(path):
    """By name, of an .npz."""
    import toolkit
    with np.load(path) as data:
        return {name: toolkit.typed(data[name]) for name in data.files}


def run(judge, off, *flags, device="cuda:0"):
    out = judge.bundle / "out.npz"
    out.unlink(missing_ok=True)
    code, text, err = judge.call(judge.bundle / "bin/offload-run", off, "--device=" + device, "--inputs",
                                 off.parent / "feeds.npz", "--output", out, "--stats=json", *flags)
    if code != 0:
        raise RuntimeError("exit code %s: %s" % (code, err.strip()[-1500:]))
    return arrays(out), json.loads(text)


VARIANTS = ((), ("--repeat", "20", "--poison"), ("--delay=h2d:1:3", "--repeat", "20"),
            ("--delay=compute:0.3:4", "--repeat", "20"), ("--delay=d2h:2:5", "--delay=host:1:6", "--repeat", "20"))


def models(judge):
    import toolkit
    for folder in sorted((judge.bundle / "models").iterdir()):
        about = json.loads((folder / "model.json").read_text())
        want = arrays(folder / "expected.npz")
        first = None
        for schedule in about["schedules"]:
            for flags in VARIANTS if schedule["file"] == "half.off" else VARIANTS[:1]:
                name = "%s %s %s" % (about["name"], schedule["file"], " ".join(flags))
                try:
                    outputs, stats = run(judge, folder / schedule["file"], *flags)
                except RuntimeError as error:
                    judge.count(name, str(error))
                    continue
                worst = max(toolkit.relative_error(outputs[k], want[k]) for k in want)
                first = first or outputs
                measured, predicted = stats["measured"], stats["predicted"]
                problem = ""
                if not worst <= about["tolerance"]:
                    problem = "differs from the host by %g" % worst
                elif not toolkit.same_bits(first, outputs):
                    problem = "other bits than the first schedule"
                elif stats["changed_outputs"]:
                    problem = "%d repeats with other bits" % stats["changed_outputs"]
                elif measured["peak_device_bytes"] > predicted["peak_device_bytes"]:
                    problem = "peak %(peak_device_bytes)d" % measured
                elif measured.get("card_bytes", 0) > schedule["device_memory"]:
                    problem = "takes %d of the card, budget %d" % (measured["card_bytes"], schedule["device_memory"])
                judge.count(name, problem)
                if not flags:
                    print("%s: error %.1e, step %.2f ms, card %.1f MiB of %.1f, h2d %.1f MiB" % (
                        name, worst, measured["step_ns"] / 1e6, measured.get("card_bytes", 0) / 2 ** 20,
                        schedule["device_memory"] / 2 ** 20, measured["h2d_bytes"] / 2 ** 20))


def weights(judge):
    """Weights replaced between runs act on the card as on the host, and the old ones give the old bits."""
    import toolkit
    old, new = judge.bundle / "old.npz", judge.bundle / "new.npz"
    for folder in sorted((judge.bundle / "models").iterdir()):
        if not folder.name.endswith(("-float32", "-float32+int8-axis")):
            continue
        for off in (folder / "resident.off", folder / "smallest.off"):
            name = "weights of %s %s" % (folder.name, off.name)
            old.unlink(missing_ok=True)
            try:
                first, _ = run(judge, off, "--output-weights", old)
                with np.load(old) as data:
                    np.savez(new, **{n: data[n] * 0.5 if data[n].dtype == np.float32 else data[n] for n in data.files})
                want, _ = run(judge, off, "--weights", new, device="host")
                got, _ = run(judge, off, "--weights", new)
                again, _ = run(judge, off, "--weights", new, "--weights", old)
            except (RuntimeError, OSError) as error:
                judge.count(name, str(error))
                continue
            worst = max(toolkit.relative_error(got[k], want[k]) for k in want)
            problem = "" if worst <= 1e-4 else "differs from the host by %g" % worst
            if toolkit.same_bits(first, got):
                problem = "other weights, same bits"
            elif not toolkit.same_bits(first, again):
                problem = "the old weights give other bits"
            judge.count(name, problem)


def timeline(judge):
    """The trace of each model keeps what any device's must."""
    import trace_judge
    for folder in sorted((judge.bundle / "models").iterdir()):
        trace = judge.bundle / "trace.json"
        trace.unlink(missing_ok=True)
        name = "timeline of %s" % folder.name
        try:
            _, stats = run(judge, folder / "half.off", "--repeat", "20", "--timeline", trace)
            judge.count(name, trace_judge.fault_of(json.loads(trace.read_text()), stats))
        except (RuntimeError, OSError) as error:
            judge.count(name, str(error))


def numerics(judge):
    """Free choice of algorithms stays within tolerance and budget."""
    import toolkit
    for folder in sorted((judge.bundle / "models").iterdir()):
        about = json.loads((folder / "model.json").read_text())
        want = arrays(folder / "expected.npz")
        for schedule in about["schedules"]:
            if schedule["file"] != "half.off":
                continue
            name = "%s --nondeterministic" % about["name"]
            try:
                outputs, stats = run(judge, folder / schedule["file"], "--nondeterministic", "--repeat", "5")
            except RuntimeError as error:
                judge.count(name, str(error))
                continue
            worst = max(toolkit.relative_error(outputs[k], want[k]) for k in want)
            taken = stats["measured"].get("card_bytes", 0)
            problem = "" if worst <= about["tolerance"] else "differs from the host by %g" % worst
            if taken > schedule["device_memory"]:
                problem = "takes %d of the card, budget %d" % (taken, schedule["device_memory"])
            elif stats["changed_outputs"] and not stats["nondeterministic_nodes"]:
                problem = "other bits, and no node had a choice"
            judge.count(name, problem)
            print("%s: %d free nodes, %d of 4 repeats with other bits, step %.2f ms" % (
                name, stats["nondeterministic_nodes"], stats["changed_outputs"], stats["measured"]["step_ns"] / 1e6))


def errors(judge):
    off = sorted((judge.bundle / "models").glob("*/resident.off"))[0]
    code, _, err = judge.call(judge.bundle / "bin/offload-run", off, "--device=cuda:99", "--random-inputs", "1")
    lines = err.strip().splitlines()
    judge.count("no such card", "" if code == 1 and len(lines) == 1 and "cuda:99" in lines[0] else err)


PARTS = {"conformance": conformance, "kernels": kernels, "models": models, "weights": weights, "timeline": timeline,
         "numerics": numerics, "errors": errors}


def make_copies(bundle):
    for name, source in json.loads((bundle / "copies.json").read_text()).items():
        if not (bundle / name).exists():
            shutil.copy(bundle / source, bundle / name)


def main(bundle, *names):
    judge = Judge(Path(bundle).resolve())
    os.environ["OFFLOAD_BUILD"] = str(judge.bundle)  # before toolkit is imported
    make_copies(judge.bundle)
    for name in names or PARTS:
        start = time.monotonic()
        before = judge.passed, len(judge.failed)
        PARTS[name](judge)
        print("== %s: %d passed, %d failed, %.0f s" % (
            name, judge.passed - before[0], len(judge.failed) - before[1], time.monotonic() - start))
    print("%d passed, %d failed" % (judge.passed, len(judge.failed)))
    return 1 if judge.failed or not judge.passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
