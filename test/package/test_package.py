"""The installed package: another project finds it, links it and runs a model."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import onnx

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("OFFLOAD_BUILD", HERE.parents[1] / "build" / "release"))
MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
outside (float[2, 3] x) => (float[2, 4] y)
<float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>
{ y = MatMul (x, w) }
"""


def call(*command):
    done = subprocess.run([str(c) for c in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise AssertionError("%s: exit code %d\n%s" % (
            " ".join(map(str, command)), done.returncode, done.stdout))
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = Path(cls.scratch.name)
        cls.prefix = cls.folder / "prefix"
        call("cmake", "--install", BUILD, "--prefix", cls.prefix)
        # Nothing but the prefix is named: the package knows the rest.
        call("cmake", "-S", HERE, "-B", cls.folder / "build", "-G", "Ninja",
             "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_PREFIX_PATH=%s" % cls.prefix)
        call("cmake", "--build", cls.folder / "build")
        cls.outside = cls.folder / "build" / "outside"

    def test_outside_project_runs_a_model(self):
        model, off = self.folder / "m.onnx", self.folder / "m.off"
        onnx.save(onnx.parser.parse_model(MODEL), model)
        call(self.prefix / "bin" / "offload-opt", model, "-o", off,
             "--target=host")
        self.assertEqual(call(self.outside, off).split(), ["y", "8"])

    def test_errors_cross_the_library(self):
        done = subprocess.run([self.outside, self.folder / "absent.off"],
                              text=True, stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("absent.off", done.stdout)

    def test_installed_tools_start(self):
        for tool in ("offload-opt", "offload-run"):
            self.assertIn(tool, call(self.prefix / "bin" / tool, "--help"))

    def test_compiler_headers_stay_home(self):
        rooms = sorted(p.name for p in (self.prefix / "include/offload").iterdir())
        self.assertEqual(rooms, ["OffFormat", "Runtime"])


if __name__ == "__main__":
    unittest.main()
