"""The tools that judge are there, every judge is run, set-up needs no network."""
import fnmatch
import importlib
import os
import re
import shutil
import subprocess
import unittest

from repository import ROOT, files, relative

TOOLS = ("lit", "FileCheck", "not", "count", "split-file", "cmake", "ctest",
         "ninja", "clang++-19", "clang-format-19", "llvm-symbolizer")
PACKAGES = ("onnx", "onnxruntime", "numpy", "torch", "torchvision",
            "transformers", "onnxscript")


class Setup(unittest.TestCase):
    def test_tools_are_there(self):
        self.assertEqual([t for t in TOOLS if shutil.which(t) is None], [])

    def test_packages_are_the_pinned_ones(self):
        pins = dict(re.findall(r"(?m)^([\w-]+)==(\S+)$",
                               (ROOT / "requirements.txt").read_text()))
        for name in PACKAGES:
            with self.subTest(name):
                version = importlib.import_module(name).__version__
                self.assertEqual(version.split("+")[0], pins[name])

    def test_every_python_judge_belongs_to_a_suite(self):
        table = (ROOT / "test" / "suites.txt").read_text()
        suites = [line.split("|")[3].strip() for line in table.splitlines()
                  if "| unittest |" in line]
        modules = [relative(p) for p in files(".py")
                   if fnmatch.fnmatch(p.name, "test_*.py")]
        left_out = [m for m in modules
                    if not any(m == s or m.startswith(s + "/") for s in suites)]
        self.assertGreater(len(modules), 3)
        self.assertEqual(left_out, [])

    def test_set_up_is_offline_when_done(self):
        # Every fetch goes to a port that nobody listens on.
        dead = "http://127.0.0.1:9"
        env = dict(os.environ, http_proxy=dead, https_proxy=dead,
                   HTTP_PROXY=dead, HTTPS_PROXY=dead, PIP_INDEX_URL=dead)
        done = subprocess.run([ROOT / "script" / "bootstrap"], env=env,
                              text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, check=True, timeout=60)
        self.assertTrue(os.path.isfile(done.stdout.strip()))


if __name__ == "__main__":
    unittest.main()
