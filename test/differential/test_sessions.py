"""Several sessions in one process, and sessions after an error: the program
session-conformance on the host device. script/gpu-test runs it on a card."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import session_files  # noqa: E402
import toolkit  # noqa: E402

CASES = ("TwoOfThemTakeTurns", "TwoOfThemRunAtTheSameTime", "TwoOfThemRunAtTheSameTimeDelayedAndPoisoned",
         "TwoOfThemAreLoadedAtTheSameTime", "OneEndsWhileAnotherRuns", "AWeightOfOneIsNoneOfAnother",
         "AComputedIndexOutOfRangeNamesItsNode", "AnErrorOfOneIsNoneOfAnother", "SizesThatAKernelRefusesNameItsNode",
         "AFailureAtEachNodeNamesItAndTheNextRunIsRight")


class Sessions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        session_files.make(cls.folder, "host")

    def call(self, *flags):
        return subprocess.run([toolkit.tool("session-conformance"), *flags], capture_output=True, text=True, timeout=300, env={
            **os.environ, "OMP_NUM_THREADS": "1", "OFFLOAD_SESSION_FILES": str(self.folder), "OFFLOAD_SESSION_DEVICE": "host"})

    def test_these_are_all_cases(self):
        listed = self.call("--gtest_list_tests").stdout.splitlines()
        self.assertEqual([line.strip() for line in listed if line.startswith(" ")], list(CASES))


for _name in CASES:
    def _test(self, name=_name):
        done = self.call("--gtest_filter=Sessions." + name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("[  PASSED  ] 1 test.", done.stdout)
    setattr(Sessions, "test_" + _name, _test)


if __name__ == "__main__":
    unittest.main()
