"""ThreadSanitizer, delays and poison over the cases, a small CNN and a small
transformer: no report and the same bits in 50 runs. And sessions that meet in one
process.

OFFLOAD_BUILD_THREAD names a build tree of preset `thread`. Each queue is delayed in
turn by seed, with every range filled with NaN after its last use."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import models  # noqa: E402
import session_files  # noqa: E402
import test_cases  # noqa: E402
import toolkit  # noqa: E402

QUEUES = ("compute", "h2d", "d2h", "host")
REPEATS = 50
THREAD_BUILD = Path(os.environ.get("OFFLOAD_BUILD_THREAD", Path(__file__).parents[2] / "build" / "thread"))
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}


class Races(test_cases.Cases):
    def race(self, what, off, feeds):
        reference = toolkit.run(off, feeds).outputs
        for k, queue in enumerate(QUEUES):
            with self.subTest(what, queue=queue):
                with instrumented():
                    result = toolkit.run(off, feeds, "--poison", "--repeat", REPEATS, "--threads", 1,
                                         "--delay=%s:0.2:%d" % (queue, 11 + k), env=ENVIRONMENT)
                self.assertEqual(result.stats["runs"], REPEATS)
                self.assertEqual(result.stats["changed_outputs"], 0)
                self.assertNotIn("ThreadSanitizer", result.stderr)
                self.assertTrue(toolkit.same_bits(reference, result.outputs))

    def race_model(self, name):
        model = models.get(name)
        smallest = toolkit.plan(model.path, *model.flags)["smallest_device_memory_bytes"]
        with tempfile.TemporaryDirectory() as folder:
            off = Path(folder) / "model.off"
            toolkit.compile_model(model.path, off, "--device-memory=%d" % smallest, *model.flags)
            self.race(name, off, model.feeds(3))

    def test_race_cnn(self):
        self.race_model("resnet18-opset18")

    def test_race_transformer(self):
        self.race_model("gpt2-opset18")

    def test_race_sessions(self):
        with tempfile.TemporaryDirectory() as folder:
            session_files.make(Path(folder), "host")
            with instrumented():
                program = toolkit.tool("session-conformance")
            done = subprocess.run([program], capture_output=True, text=True, timeout=600,
                                  env={**os.environ, **ENVIRONMENT, "OFFLOAD_SESSION_FILES": folder})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("ThreadSanitizer", done.stderr)


class instrumented:
    """Within it the toolkit takes its tools from the ThreadSanitizer build."""
    def __enter__(self):
        self.build, toolkit.BUILD = toolkit.BUILD, THREAD_BUILD

    def __exit__(self, *error):
        toolkit.BUILD = self.build


for _attribute in [a for a in dir(Races) if a.startswith("test_") and not a.startswith("test_race_")]:
    setattr(Races, _attribute, None)   # what the base class judges is judged there
for _name in test_cases.RUN:
    def _test(self, name=_name):
        model = self.root / name / "model.onnx"
        budget = toolkit.plan(model)["smallest_device_memory_bytes"]
        off, _ = self.compile(name, "--device-memory=%d" % budget)
        self.race(name, off, next(iter(self.feeds(name)))[0])
    setattr(Races, "test_race_" + _name, _test)

if __name__ == "__main__":
    unittest.main()
