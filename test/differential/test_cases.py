"""Small graphs with right answers, each after a fault that people met.

Every case of cases.py that needs neither training nor control flow runs at the
smallest budget, at one between and all resident, at depths 2 and 4, and gives its
right values, the same bits each time, and moves the bytes that were planned."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import cases  # noqa: E402
import toolkit  # noqa: E402

CONTROL_FLOW = {"if_branch", "loop_body_weight"}
TRAINING_ONLY = {"dropout_train"}  # its forward pass needs a training-mode Dropout
REFUSED = {"ext_short", "ext_escape"}
RUN = [n for n in cases.T_ALL if n not in CONTROL_FLOW | TRAINING_ONLY | REFUSED]
TOLERANCE = 1e-4


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        argv, sys.argv = sys.argv, ["cases.py", str(cls.root)]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                cases.main()
        finally:
            sys.argv = argv

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def feeds(self, name):
        folder = self.root / name
        k = 0
        while (folder / ("in_%d.npz" % k)).exists():
            with np.load(folder / ("in_%d.npz" % k)) as data:
                feeds = {n: data[n] for n in data.files}
            with np.load(folder / ("out_%d.npz" % k)) as data:
                outputs = {n: data[n] for n in data.files}
            yield feeds, outputs
            k += 1

    def compile(self, name, *flags):
        off = self.root / name / "model.off"
        return off, toolkit.compile_model(self.root / name / "model.onnx", off, *flags)[1]

    def check_run(self, name, off, *flags):
        """Outputs of every run of the case, after they were found right."""
        seen = []
        for feeds, wanted in self.feeds(name):
            result = toolkit.run(off, feeds, *flags)
            for output, right in wanted.items():
                self.assertLess(toolkit.relative_error(result.outputs[output], right), TOLERANCE,
                                "%s: output %s" % (name, output))
            measured, predicted = result.stats["measured"], result.stats["predicted"]
            for key in ("h2d_bytes", "d2h_bytes", "peak_device_bytes"):
                self.assertEqual(measured[key], predicted[key], "%s: %s" % (name, key))
            seen.append(result)
        return seen

    def judge(self, name):
        plan = toolkit.plan(self.root / name / "model.onnx")
        smallest = plan["smallest_device_memory_bytes"]
        largest = max(row["device_memory_bytes"] for row in plan["rows"])
        reference = None
        for budget in sorted({smallest, (smallest + largest) // 2, largest}):
            for depth in (2, 4):
                try:
                    off, _ = self.compile(name, "--device-memory=%d" % budget, "--depth=%d" % depth)
                except toolkit.ToolError as error:
                    # Only a deeper schedule than the smallest budget's may not fit.
                    self.assertTrue(depth == 4 and budget < largest, str(error))
                    self.assertIn("at least", error.stderr)
                    continue
                results = self.check_run(name, off, "--poison")
                bits = [r.outputs for r in results]
                for result in results:
                    self.assertLessEqual(result.stats["measured"]["peak_device_bytes"], budget)
                if reference is None:
                    reference = bits
                for a, b in zip(reference, bits):
                    self.assertTrue(toolkit.same_bits(a, b), "%s: other bits at budget %d, depth %d" % (name, budget, depth))

    # What the notes of single cases ask for beyond right values.

    def test_chain_qdq_repeats(self):
        off, _ = self.compile("chain_qdq", "--device-memory=%d" % toolkit.plan(self.root / "chain_qdq" / "model.onnx")["smallest_device_memory_bytes"])
        (feeds, right), = self.feeds("chain_qdq")
        once = toolkit.run(off, feeds).outputs
        many = toolkit.run(off, feeds, "--repeat", 20, "--delay=h2d:1:7", "--delay=compute:1:3")
        self.assertTrue(toolkit.same_bits(once, many.outputs))
        self.assertGreater(many.stats["measured"]["h2d_bytes"], 0)

    def test_shuffled_order_stages_by_use(self):
        model = self.root / "shuffled_order" / "model.onnx"
        budget = toolkit.plan(model)["smallest_device_memory_bytes"]
        off, _ = self.compile("shuffled_order", "--device-memory=%d" % budget)
        import onnx
        staged = [n.input[0] for n in onnx.load(str(off), load_external_data=False).graph.node
                  if n.op_type == "Stage" and n.input[0].startswith("w")]
        self.assertEqual(staged, ["w%02d" % (9 - i) for i in range(8)])

    def test_tied_counted_once(self):
        weights = toolkit.list_weights(self.root / "tied" / "model.onnx")
        self.assertEqual([w["bytes"] for w in weights if w["name"] == "E"], [11 * 6 * 4])

    def test_dq_int8_bytes_packed(self):
        weights = toolkit.list_weights(self.root / "dq_int8_no_zp" / "model.onnx")
        self.assertEqual(sum(w["bytes"] for w in weights if w["kind"] == "quantized"), 6 + 4)

    def test_dq_blocked_bytes_packed(self):
        weights = toolkit.list_weights(self.root / "dq_blocked_axis" / "model.onnx")
        for w in weights:
            if w["kind"] == "quantized":
                self.assertIn(w["bytes"], [60 + n * 4 + (n + 1) // 2 for n in (2 * 6 * 5, 4 * 2 * 5, 4 * 6 * 1)])

    def test_big_embedding_moves_rows(self):
        off, _ = self.compile("big_embedding", "--device-memory=107000")
        (feeds, right), = self.feeds("big_embedding")
        result = self.check_run("big_embedding", off)[0]
        self.assertLess(result.stats["measured"]["h2d_bytes"], 64 * 200 * 4 + 4 * 1024)
        for ids in ([0, 4000, 17], [0, -4001, 1]):
            code, err = toolkit.refused("offload-run", off, "--inputs", self.npz(ids=np.array(ids, np.int64)), "--device=host")
            self.assertEqual(code, 1)
            self.assertIn("Gather", err)

    def test_just_over_pow2_pinned(self):
        model = self.root / "just_over_pow2" / "model.onnx"
        plan = toolkit.plan(model)
        off, _ = self.compile("just_over_pow2", "--device-memory=%d" % plan["smallest_device_memory_bytes"])
        (feeds, right), = self.feeds("just_over_pow2")
        measured = toolkit.run(off, feeds).stats["measured"]
        self.assertGreater(measured["h2d_bytes"], 3342336 - 1)
        self.assertLessEqual(measured["pinned_bytes"], 1.1 * 3342336)

    def test_nothing_to_stage_says_so(self):
        off, err = self.compile("nothing_to_stage", "--device-memory=1MiB")
        self.assertRegex(err, "(?i)nothing (streams|to stream|was staged)")

    def test_refusals(self):
        for name in sorted(REFUSED):
            with self.subTest(name):
                off = self.root / name / "model.off"
                code, err = toolkit.refused("offload-opt", self.root / name / "model.onnx", "-o", off)
                self.assertEqual(code, 1)
                self.assertEqual(len(err.strip().splitlines()), 1, err)
                self.assertFalse(list((self.root / name).glob("model.off*")))
        code, err = toolkit.refused("offload-opt", self.root / "ext_short" / "model.onnx", "--plan")
        for word in ("'B'", "w.bin", "4096", str(9 * 3 * 4), str(4096 + 40)):
            self.assertIn(word, err)

    def test_control_flow_is_refused_by_name(self):
        for name in sorted(CONTROL_FLOW):
            with self.subTest(name):
                code, err = toolkit.refused("offload-opt", self.root / name / "model.onnx", "--plan")
                self.assertEqual(code, 1)
                self.assertIn("If" if name == "if_branch" else "Loop", err)

    def npz(self, **arrays):
        path = self.root / "feeds.npz"
        np.savez(path, **arrays)
        return path


for _name in RUN:
    def _test(self, name=_name):
        self.judge(name)
    _test.__doc__ = cases.T_ALL[_name].__doc__
    setattr(Cases, "test_run_" + _name, _test)

if __name__ == "__main__":
    unittest.main()
