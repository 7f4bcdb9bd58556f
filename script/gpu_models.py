"""Parts of gpu_test.py that run whole models.

Bits must not depend on budget, depth, delays or poison, nor change in 20 repeats;
results are those of the host device where the bundle was made, within the type's
tolerance. What a process takes of the card is judged while it runs there alone."""
import functools
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from gpu_judge import arrays, worst_error

REPEATS, DELAYED_REPEATS, TIMED_ROUNDS = 20, 5, 30
DELAYS = ("--delay=h2d:0.5:3", "--delay=compute:0.1:4", "--delay=d2h:1:5", "--delay=host:0.5:6")


def about_of(folder):
    return json.loads((folder / "model.json").read_text()), arrays(folder / "expected.npz")


def card_problem(stats, schedule):
    taken = stats["measured"].get("card_bytes", 0)
    over = taken > schedule["device_memory"]
    return "takes %d of the card, budget %d" % (taken, schedule["device_memory"]) if over else ""


def bits_problem(outputs, stats, first):
    import toolkit
    if stats["changed_outputs"]:
        return "%d repeats with other bits" % stats["changed_outputs"]
    return "" if toolkit.same_bits(first, outputs) else "other bits than the first schedule"


def error_problem(error, about):
    return "" if error <= about["tolerance"] else "differs from the host by %g" % error


def peak_problem(stats):
    measured, predicted = (stats[k]["peak_device_bytes"] for k in ("measured", "predicted"))
    return "peak %d, planned %d" % (measured, predicted) if measured > predicted else ""


def moved_problem(stats, about):
    """Feeds and results of a dynamic model may be smaller than at the bound."""
    measured, predicted = ([stats[k][way] for way in ("h2d_bytes", "d2h_bytes")] for k in ("measured", "predicted"))
    more = any(m > p for m, p in zip(measured, predicted))
    return "copied %s, planned %s" % (measured, predicted) if more or (
        "static" in about["name"] and measured != predicted) else ""


# ---------------------------------------------------------------------- models
def figures_of(error, stats, schedule):
    measured = stats["measured"]
    card = schedule and ", card %.1f MiB of %.1f" % (
        measured.get("card_bytes", 0) / 2 ** 20, schedule["device_memory"] / 2 ** 20)
    return "error %.1e, step %.2f ms, h2d %.1f MiB%s" % (
        error, measured["step_ns"] / 1e6, measured["h2d_bytes"] / 2 ** 20, card or "")


def disturbances(judge, folder, schedule):
    """All queues are delayed, each by a seed of its own; in one model of each kind also one alone, where most and where
    least of the weights stream."""
    flags = [(*DELAYS, "--poison", "--repeat", DELAYED_REPEATS)]
    if folder in judge.samples() and schedule["file"] in ("resident.off", "smallest.off"):
        flags += [(delay, "--repeat", DELAYED_REPEATS) for delay in DELAYS]
    return flags


def is_alone(judge, folder, schedule):
    """Whether a schedule has a process of its own, while nothing else happens on the card: then it is known what it
    takes. The smallest budget is the one that is easily passed."""
    return schedule["file"] == "smallest.off" or folder in judge.samples()


def judge_schedule(judge, about, want, schedule, first, outcome, alone=False):
    """Counts a schedule without delays; gives its outputs, or None."""
    name, (result, error) = "%s %s" % (about["name"], schedule["file"]), outcome
    if result is None:
        judge.count(name, error)
        return None
    outputs, stats = result
    error = worst_error(outputs, want)
    judge.count(name, error_problem(error, about) or bits_problem(outputs, stats, first or outputs) or
                peak_problem(stats) or moved_problem(stats, about) or (card_problem(stats, schedule) if alone else ""),
                figures_of(error, stats, schedule if alone else None))
    return outputs


def models(judge):
    for folder in judge.models():
        about, want = about_of(folder)
        first, rest = None, []
        for schedule in about["schedules"]:
            if not is_alone(judge, folder, schedule):
                rest.append((schedule, ("--repeat", REPEATS)))
                continue
            outcome, = judge.beside([functools.partial(judge.run, folder / schedule["file"], "--repeat", REPEATS)])
            got = judge_schedule(judge, about, want, schedule, first, outcome, True)
            first = first or got
        delayed = [(schedule, flags) for schedule in about["schedules"] for flags in disturbances(judge, folder, schedule)]
        calls = [functools.partial(judge.run_served, folder / schedule["file"], *flags) for schedule, flags in rest + delayed]
        outcomes = judge.beside(calls)
        for (schedule, _), outcome in zip(rest, outcomes):
            got = judge_schedule(judge, about, want, schedule, first, outcome)
            first = first or got
        for (schedule, flags), outcome in zip(delayed, outcomes[len(rest):]):
            judge_delayed(judge, about, want, "%s %s" % (schedule["file"], " ".join(map(str, flags))), first, outcome)


def judge_delayed(judge, about, want, what, first, outcome):
    name, (result, error) = "%s %s" % (about["name"], what), outcome
    if result is None or first is None:
        judge.count(name, error or "no schedule ran undisturbed")
        return
    outputs, stats = result
    judge.count(name, bits_problem(outputs, stats, first) or error_problem(worst_error(outputs, want), about) or
                peak_problem(stats) or moved_problem(stats, about))


# --------------------------------------------------------------------- weights
def weights_problem(judge, off):
    import toolkit
    with tempfile.TemporaryDirectory() as scratch:
        old, new = Path(scratch) / "old.npz", Path(scratch) / "new.npz"
        first, _ = judge.run_served(off, "--output-weights", old)
        with np.load(old) as data:
            np.savez(new, **{n: data[n] * 0.5 if data[n].dtype == np.float32 else data[n] for n in data.files})
        want, _ = judge.run_served(off, "--weights", new, device="host")
        got, _ = judge.run_served(off, "--weights", new)
        again, _ = judge.run_served(off, "--weights", new, "--weights", old)
    error = worst_error(got, want)
    if not error <= 1e-4:
        return "differs from the host by %g" % error
    if toolkit.same_bits(first, got):
        return "other weights, same bits"
    return "" if toolkit.same_bits(first, again) else "the old weights give other bits"


def weights(judge):
    """Weights replaced between runs act on the card as on the host, and the old ones give the old bits."""
    offs = [folder / file for folder in judge.models() if folder.name.endswith(("-float32", "-float32+int8-axis"))
            for file in ("resident.off", "smallest.off")]
    results = judge.beside([functools.partial(weights_problem, judge, off) for off in offs])
    for off, (problem, error) in zip(offs, results):
        judge.count("weights of %s %s" % (off.parent.name, off.name), error or problem)


# -------------------------------------------------------------------- timeline
def trace_problem(judge, off):
    import trace_judge
    with tempfile.TemporaryDirectory() as scratch:
        trace = Path(scratch) / "trace.json"
        _, stats = judge.run_served(off, "--repeat", REPEATS, "--timeline", trace)
        return trace_judge.fault_of(json.loads(trace.read_text()), stats)


def timing_cost(judge, folder):
    """What keeping times costs: medians of rounds that alternate between two processes."""
    sys.path.insert(0, str(judge.bundle / "bench"))
    import rounds
    with tempfile.TemporaryDirectory() as scratch:
        def driver(times):
            return rounds.Driver(judge.program("session-driver"), folder / "half.off", judge.device,
                                 folder / "feeds.npz", Path(scratch) / "out.npz", times)
        with driver(False) as plain, driver(True) as timed:
            for _ in range(rounds.WARM_UP):
                plain(), timed()
            pairs = [(plain(), timed()) for _ in range(TIMED_ROUNDS)]
    without, kept = (statistics.median(side) for side in zip(*pairs))
    return "median step %.3f ms without times, %.3f ms with them: %.3f" % (without / 1e6, kept / 1e6, kept / without)


def feeds_are_known(folder):
    """numpy names a bfloat16 by its bytes alone, and session-driver takes it at its word."""
    with np.load(folder / "feeds.npz") as feeds:
        return all(feeds[name].dtype.kind != "V" for name in feeds.files)


def timeline(judge):
    """The trace of each model keeps what any device's must; then figures of its cost, which are no cases."""
    folders = judge.models()
    results = judge.beside([functools.partial(trace_problem, judge, folder / "half.off") for folder in folders])
    for folder, (problem, error) in zip(folders, results):
        judge.count("timeline of %s" % folder.name, error or problem)
    for folder in filter(feeds_are_known, judge.samples()):
        try:
            told = timing_cost(judge, folder)
        except Exception as error:   # a figure that could not be had
            told = "%s: %s" % (type(error).__name__, error)
        print("cost of a timeline, %s: %s" % (folder.name, told))


# -------------------------------------------------------------------- numerics
def numerics(judge):
    """Free choice of algorithms stays within tolerance and budget."""
    for folder in judge.models():
        about, want = about_of(folder)
        schedule = next(s for s in about["schedules"] if s["file"] == "half.off")
        name = "%s --nondeterministic" % about["name"]
        try:
            outputs, stats = judge.run(folder / schedule["file"], "--nondeterministic", "--repeat", "5")
        except (RuntimeError, OSError, ValueError) as error:
            judge.count(name, error)
            continue
        problem = error_problem(worst_error(outputs, want), about) or card_problem(stats, schedule)
        if stats["changed_outputs"] and not stats["nondeterministic_nodes"]:
            problem = problem or "other bits, and no node had a choice"
        judge.count(name, problem, "%d free nodes, %d of 4 repeats with other bits, step %.2f ms" % (
            stats["nondeterministic_nodes"], stats["changed_outputs"], stats["measured"]["step_ns"] / 1e6))
