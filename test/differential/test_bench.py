"""The benchmark itself: its models agree with PyTorch, its parts run whole, and its
page is made from what they left. What is fast is not judged here."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import toolkit

BENCH = Path(__file__).resolve().parents[2] / "bench"
PARTS = ("blocks-2048", "loading", "chain")


def measure(results, *flags):
    return subprocess.run(
        [BENCH / "performance", *PARTS, "--build=%s" % toolkit.BUILD, "--device=host", "--small", "--rounds=1",
         "--results=%s" % results, *flags], capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"})


class Performance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.results = Path(cls.folder.name) / "results.json"
        cls.done = measure(cls.results, "--dtype=float32")
        cls.parts = json.loads(cls.results.read_text())["parts"] if cls.results.exists() else {}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_all_parts_run(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.assertEqual(sorted(self.parts), sorted(PARTS))

    def test_models_agree_with_pytorch(self):
        for name in ("blocks-2048", "chain"):
            self.assertLess(self.parts[name]["error"], 1e-5, name)

    def test_nothing_large_is_resident(self):
        blocks = self.parts["blocks-2048"]
        moved = blocks["statistics"]["measured"]["h2d_bytes"]
        self.assertGreaterEqual(moved, blocks["weight_bytes"] - blocks["resident_bytes"])
        self.assertLess(blocks["resident_bytes"], blocks["weight_bytes"] / 10)

    def test_a_chain_is_four_budgets_long(self):
        chain = self.parts["chain"]
        self.assertEqual(chain["weight_bytes"], 4 * chain["device_memory"])
        self.assertLessEqual(chain["statistics"]["measured"]["peak_device_bytes"], chain["device_memory"])

    def test_a_page_has_a_row_for_each_part(self):
        sys.path.insert(0, str(BENCH))
        try:
            import report
        finally:
            sys.path.remove(str(BENCH))
        page = Path(self.folder.name) / "page.md"
        page.write_text("above\n%s\nold\n%s\nbelow\n" % (report.BEGIN, report.END))
        report.write_page(page, json.loads(self.results.read_text()))
        text = page.read_text()
        self.assertTrue(text.startswith("above\n") and text.endswith("\nbelow\n"))
        self.assertNotIn("\nold\n", text)
        for name in PARTS:
            self.assertIn("| %s |" % report.TITLES[name], text)


if __name__ == "__main__":
    unittest.main()
