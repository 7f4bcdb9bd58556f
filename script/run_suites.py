"""Builds the trees that suites need, runs the suites and adds up the counts.

Reads test/suites.txt. A case counts as passed only where it ran and passed:
skipped, unsupported and unexpectedly passing ones are failures, and so are a
suite without cases, a program that ends early and a tree that does not build.
Needs the environment of script/bootstrap; script/test starts it in there."""
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIME_LIMIT_SECONDS = 3600  # of one suite; a hang must not hold up the report
JOBS = os.cpu_count() or 1


@dataclass
class Suite:
    name: str
    presets: list  # the first one's tools are judged
    kind: str
    what: str
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0


def read_suites():
    suites = []
    for line in (ROOT / "test" / "suites.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, presets, kind, what = (field.strip() for field in line.split("|"))
        suites.append(
            Suite(name, [p.strip() for p in presets.split(",")], kind, what))
    return suites


def build_folder(preset):
    return ROOT / "build" / preset


def run(command, seconds=TIME_LIMIT_SECONDS, **options):
    """The command's exit code; None where it took too long. It and all that it
    started are ended then."""
    process = subprocess.Popen([str(c) for c in command], cwd=ROOT,
                               start_new_session=True, **options)
    try:
        return process.wait(timeout=seconds)
    except BaseException as stop:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(stop, subprocess.TimeoutExpired):
            print("stopped after %d s: %s" % (seconds, command[0]), flush=True)
            return None
        raise


def build(preset):
    """Whether the tree of this preset is configured and built."""
    with tempfile.TemporaryFile("w+") as log:
        for command in (["cmake", "--preset", preset],
                        ["cmake", "--build", build_folder(preset), "-j", JOBS]):
            if run(command, stdout=log, stderr=subprocess.STDOUT) != 0:
                log.seek(0)
                lines = log.readlines()
                first = [k for k, line in enumerate(lines) if
                         "FAILED" in line or "CMake Error" in line][:1]
                start = first[0] if first else max(0, len(lines) - 60)
                print("".join(lines[start:start + 60]), flush=True)
                return False
    return True


def environment(suite):
    env = dict(os.environ)
    env["OFFLOAD_BUILD"] = str(build_folder(suite.presets[0]))
    for preset in suite.presets:
        env["OFFLOAD_BUILD_" + preset.upper()] = str(build_folder(preset))
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:strict_string_checks=1")
    env.setdefault("LSAN_OPTIONS", "suppressions=%s:print_suppressions=0"
                   % (ROOT / "test" / "lsan.supp"))
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    if "thread" in suite.presets:
        # LibTorch is not instrumented: its own OpenMP workers would be reported.
        env["OMP_NUM_THREADS"] = "1"
        env.setdefault("TSAN_OPTIONS", "halt_on_error=1:exitcode=66")
    return env


def run_lit(suite, report):
    folder = build_folder(suite.presets[0]) / "test"
    target = folder if suite.what == "." else folder / suite.what
    run(["lit", "-sv", "-j", JOBS, "--output", report, target],
        env=environment(suite))
    for test in json.loads(report.read_text())["tests"]:
        if test["code"] in ("PASS", "XFAIL", "FLAKYPASS"):
            suite.passed += 1
        else:
            suite.failed += 1
            if test["code"] not in ("FAIL", "TIMEOUT", "UNRESOLVED"):
                print("%s: %s counts as failed" % (test["name"], test["code"]))


def is_selected(name, patterns):
    """Patterns with ! before them leave out what the others take."""
    def matches(left_out):
        return any(fnmatch.fnmatch(name, p.lstrip("!")) for p in patterns.split()
                   if p.startswith("!") == left_out)
    return matches(False) and not matches(True)


def gtest_programs(suite):
    listing = subprocess.run(
        ["ctest", "--show-only=json-v1"], check=True, text=True,
        cwd=build_folder(suite.presets[0]), stdout=subprocess.PIPE)
    return [t["command"] for t in json.loads(listing.stdout)["tests"]
            if is_selected(t["name"], suite.what)]


def run_gtest(suite, report):
    for command in gtest_programs(suite):
        report.unlink(missing_ok=True)
        code = run(command + ["--gtest_brief=1", "--gtest_output=json:%s" % report],
                   env=environment(suite))
        passed = failed = 0
        if report.exists():
            for group in json.loads(report.read_text())["testsuites"]:
                for case in group["testsuite"]:
                    ran = (case["status"] == "RUN" and
                           case["result"] == "COMPLETED")
                    if ran and "failures" not in case:
                        passed += 1
                    else:
                        failed += 1
        if code != 0 and not failed:
            print("%s: exit code %s" % (Path(command[0]).name, code), flush=True)
            failed += 1  # it crashed, or a sanitizer spoke at its end
        suite.passed += passed
        suite.failed += failed


def run_unittest(suite, report):
    run([sys.executable, ROOT / "script" / "run_unittest.py", report, JOBS,
         ROOT / suite.what], env=environment(suite))
    counts = json.loads(report.read_text())
    suite.passed, suite.failed = counts["passed"], counts["failed"]


KINDS = {"lit": run_lit, "gtest": run_gtest, "unittest": run_unittest}


def run_suite(suite, built):
    print("\n== %s" % suite.name, flush=True)
    start = time.monotonic()
    if all(built[preset] for preset in suite.presets):
        with tempfile.TemporaryDirectory() as folder:
            try:
                KINDS[suite.kind](suite, Path(folder) / "report.json")
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                print("%s did not report: %s" % (suite.name, error), flush=True)
                suite.failed += 1
    else:
        print("its tree was not built")
        suite.failed += 1
    if not suite.passed and not suite.failed:
        print("%s has no cases" % suite.name)
        suite.failed += 1
    suite.seconds = time.monotonic() - start


def select(suites, names):
    unknown = set(names) - {s.name for s in suites}
    if unknown:
        sys.exit("no suite '%s'; there are: %s" % (
            ", ".join(sorted(unknown)), ", ".join(s.name for s in suites)))
    return [s for s in suites if not names or s.name in names]


def main(arguments):
    suites = read_suites()
    if arguments == ["--list"]:
        for suite in suites:
            print("%-14s %-8s %s" % (suite.name, suite.kind, suite.what))
        return 0
    suites = select(suites, arguments)
    rows = [("set-up", "", "", float(os.environ.get("OFFLOAD_SETUP_SECONDS", 0)))]
    built = {}
    # The release tree holds the one archive of LibTorch code.
    wanted = {"release"} | {p for s in suites for p in s.presets}
    for preset in sorted(wanted, key=lambda p: (p != "release", p)):
        print("== building %s" % preset, flush=True)
        start = time.monotonic()
        built[preset] = built.get("release", True) and build(preset)
        rows.append(("build " + preset, "" if built[preset] else "failed", "",
                     time.monotonic() - start))
    for suite in suites:
        run_suite(suite, built)
        rows.append((suite.name, suite.passed, suite.failed, suite.seconds))

    print("\n%-16s %8s %8s %8s" % ("suite", "passed", "failed", "minutes"))
    for name, passed, failed, seconds in rows:
        print("%-16s %8s %8s %8.1f" % (name, passed, failed, seconds / 60))
    print("%-16s %8s %8s %8.1f" % ("all", "", "", sum(r[3] for r in rows) / 60))
    passed = sum(s.passed for s in suites)
    failed = sum(s.failed for s in suites)
    failed += sum(1 for ok in built.values() if not ok)
    print("\n%d passed, %d failed" % (passed, failed), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
