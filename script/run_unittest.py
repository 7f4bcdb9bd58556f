"""Runs unittest modules in several processes and counts test methods.

Usage: run_unittest.py REPORT.json JOBS FOLDER_OR_MODULE
A method counts as passed where it ran, and neither it nor one of its subtests
failed; a skipped one, one expected to fail, a module that does not load and a
worker that dies count as failed. What fails is printed whole."""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path


class Result(unittest.TextTestResult):
    """Ids of methods that ran and of those that did not pass."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.ran, self.bad, self.started = set(), set(), 0.0

    def startTest(self, test):
        self.started = time.monotonic()
        self.ran.add(test.id())
        super().startTest(test)

    def stopTest(self, test):
        seconds = time.monotonic() - self.started
        if seconds > 30:
            self.stream.writeln("%s took %.0f s" % (test.id(), seconds))
        super().stopTest(test)

    def addError(self, test, error):
        self.bad.add(test.id())  # also a class or module that cannot be set up
        super().addError(test, error)

    def addFailure(self, test, error):
        self.bad.add(test.id())
        super().addFailure(test, error)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.bad.add(test.id())
        super().addSubTest(test, subtest, error)

    def addSkip(self, test, reason):
        self.bad.add(test.id())
        self.stream.writeln("%s is skipped (%s) and counts as failed"
                            % (test.id(), reason))
        super().addSkip(test, reason)

    def addExpectedFailure(self, test, error):
        self.bad.add(test.id())
        super().addExpectedFailure(test, error)

    def addUnexpectedSuccess(self, test):
        self.bad.add(test.id())
        super().addUnexpectedSuccess(test)


def cases_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases_of(test)
        else:
            yield test


def load(where):
    folder, pattern = (where, "test_*.py") if where.is_dir() else (
        where.parent, where.name)
    return list(cases_of(unittest.TestLoader().discover(str(folder), pattern)))


def work(where, worker, jobs, report):
    """Runs every `jobs`-th case. Neighbours go to different workers, since the
    slow cases of a module tend to lie together."""
    mine = unittest.TestSuite(load(where)[worker::jobs])
    result = unittest.TextTestRunner(
        stream=sys.stdout, resultclass=Result, verbosity=0).run(mine)
    report.write_text(json.dumps(
        {"passed": len(result.ran - result.bad), "failed": len(result.bad)}))


def main(report, jobs, where):
    report, where = Path(report), Path(where)
    jobs = max(1, min(int(jobs), len(load(where))))
    total = {"passed": 0, "failed": 0}
    with tempfile.TemporaryDirectory() as folder:
        workers = []
        for k in range(jobs):
            log = open(Path(folder) / ("%d.log" % k), "w+")
            part = Path(folder) / ("%d.json" % k)
            process = subprocess.Popen(
                [sys.executable, __file__, "--worker", str(part), str(jobs),
                 str(where), str(k)], stdout=log, stderr=subprocess.STDOUT)
            workers.append((process, log, part))
        for process, log, part in workers:
            process.wait()
            log.seek(0)
            print(log.read(), end="")
            if part.exists():
                counts = json.loads(part.read_text())
                for key in total:
                    total[key] += counts[key]
            else:
                print("a worker of %s ended with exit code %s"
                      % (where.name, process.returncode))
                total["failed"] += 1
    report.write_text(json.dumps(total))


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        work(Path(sys.argv[4]), int(sys.argv[5]), int(sys.argv[3]),
             Path(sys.argv[2]))
        sys.stdout.flush()
        os._exit(0)  # LibTorch's and ONNX Runtime's exit handlers add nothing
    main(*sys.argv[1:])
