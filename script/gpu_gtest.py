"""Parts of gpu_test.py that run programs of gtest, and sessions on several cards.

Where a machine has one card, lib/two-cards.so shows it as two; it also tells on which
cards a process has made contexts, and what met the wrong card."""
import functools
import json
import re
import tempfile
from pathlib import Path

from gpu_judge import arrays, shortened


def count_cases(judge, report, where):
    """How many the report tells of, and how many of them failed."""
    cases = [case for suite in json.loads(report.read_text())["testsuites"] for case in suite["testsuite"]]
    failed = 0
    for case in cases:
        ran = case["status"] == "RUN" and case["result"] == "COMPLETED"
        texts = [f["failure"] for f in case.get("failures", [])] or ([] if ran else ["it did not run"])
        failed += bool(texts)
        judge.count(case["name"] + where, " || ".join(texts)[:1500], case.get("time", ""))
    return len(cases), failed


def cases_of(judge, program, environment):
    """Full names, as --gtest_list_tests gives them: suites, and under each its cases."""
    suite, cases = "", []
    for line in judge.call(*program, "--gtest_list_tests", **environment)[1].splitlines():
        words = line.split("#")[0].rstrip()
        if not line.startswith(" "):
            suite = words if words.endswith(".") else ""
        elif suite:
            cases.append(suite + words.strip())
    return cases


def run_gtest(judge, name, seconds, *flags, where="", **environment):
    """Counts the program's cases, their names with `where` behind; gives what it printed beside them, which are figures.
    Where it does not come to its end, each case runs in a process of its own."""
    report = judge.bundle / (name + ".json")
    report.unlink(missing_ok=True)
    program = (judge.program(name), *flags, "--gtest_output=json:%s" % report)
    code, out, err = judge.call(*program, seconds=seconds, **environment)
    if report.exists():
        seen, failed = count_cases(judge, report, where)
        if not seen or (code != 0 and not failed):
            judge.count(name + where, "exit code %s, %d cases; %s" % (code, seen, shortened(out + err)))
    else:
        judge.count(name + where, "exit code %s, no report; %s" % (code, shortened(out + err)))
        for case in cases_of(judge, program, environment):
            code, alone, err = judge.call(*program, "--gtest_filter=" + case, seconds=40, **environment)
            judge.count(case + where + " alone", "" if code == 0 else "exit code %s; %s" % (code, shortened(err or alone)))
            out += alone
    return [line for line in out.splitlines() if line and not re.match(r"\[[ =\-A-Z]+\]|Note:|Running main", line)]


def conformance(judge):
    run_gtest(judge, "device-conformance-cuda", 120)


def on(judge, device, other):
    return {"OFFLOAD_SESSION_FILES": str(judge.bundle / "sessions"), "OFFLOAD_SESSION_DEVICE": device,
            "OFFLOAD_SESSION_OTHER_DEVICE": other}


def sessions(judge):
    for line in run_gtest(judge, "session-conformance", 120, **on(judge, judge.device, judge.device)):
        print("     " + line[:300])


# ----------------------------------------------------------------------- cards
def two_cards(judge, report):
    return {"LD_PRELOAD": str(judge.bundle / "lib" / "two-cards.so"), "TWO_CARDS_REPORT": str(report)}


def report_problem(report, contexts):
    told = report.read_text().splitlines() if report.exists() else ["no report"]
    return "" if told == ["contexts: " + contexts] else "; ".join(told)


def second_card_problem(judge, off):
    """The first card's bits, and no context but the second card's."""
    first, _ = judge.run_served(off)
    with tempfile.TemporaryDirectory() as scratch:
        out, report = Path(scratch) / "out.npz", Path(scratch) / "report"
        code, _, err = judge.call(judge.program("offload-run"), off, "--device=cuda:1", "--inputs", off.parent / "feeds.npz",
                                  "--output", out, "--repeat", "3", **two_cards(judge, report))
        if code != 0:
            return "exit code %s: %s" % (code, shortened(err))
        import toolkit
        same = toolkit.same_bits(first, arrays(out))
        return report_problem(report, "1") or ("" if same else "other bits than on " + judge.device)


def cards(judge):
    """Sessions of one process on two cards, and processes that use the second one alone."""
    with tempfile.TemporaryDirectory() as scratch:
        for number, (device, other) in enumerate((("cuda:0", "cuda:1"), ("cuda:1", "cuda:1"))):
            where, report = ", %s and %s" % (device, other), Path(scratch) / ("report-%d" % number)
            run_gtest(judge, "session-conformance", 120, "--gtest_filter=Sessions.*", where=where,
                      **on(judge, device, other), **two_cards(judge, report))
            judge.count("contexts of sessions on" + where[1:], report_problem(report, "0 1" if device != other else "1"))
    offs = [folder / file for folder in judge.samples() for file in ("half.off", "smallest.off")]
    results = judge.beside([functools.partial(second_card_problem, judge, off) for off in offs])
    for off, (problem, error) in zip(offs, results):
        judge.count("%s %s on the second card alone" % (off.parent.name, off.name), error or problem)
