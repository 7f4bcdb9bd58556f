"""Trained models and exports of usual architectures against ONNX Runtime, and
against PyTorch where ONNX Runtime does not run them (it has no bfloat16).

Each runs with everything resident, at half of that and at the smallest budget, at
depths 2 and 4: the right numbers, the same bits every time, and the bytes that
were planned, above zero wherever weights stream. OFFLOAD_FULL=1 takes every
family, form, kind of shape and type."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import models  # noqa: E402
import toolkit  # noqa: E402


def plan_of(content):
    """Nodes and properties of a `.off`; where its data lies is apart."""
    import onnx
    model = onnx.ModelProto.FromString(content)
    return ([n.SerializeToString(deterministic=True) for n in model.graph.node],
            {p.key: p.value for p in model.metadata_props})


class Models(unittest.TestCase):
    def judge(self, name):
        model = models.get(name)
        feeds = model.feeds(5)
        wanted = model.eager(5) if model.eager else toolkit.run_onnxruntime(model.path, feeds)
        plan = toolkit.plan(model.path, *model.flags)
        smallest = plan["smallest_device_memory_bytes"]
        resident = max(row["device_memory_bytes"] for row in plan["rows"])
        self.assertLess(smallest, resident, "nothing to stream")
        reference, dynamic = None, any("<=" in flag for flag in model.flags)
        with tempfile.TemporaryDirectory() as folder:
            off = Path(folder) / "model.off"
            for budget in (resident, max(smallest, resident // 2), smallest):
                for depth in (2, 4):
                    what = "%s at %d bytes, depth %d" % (name, budget, depth)
                    try:
                        toolkit.compile_model(model.path, off, "--device-memory=%d" % budget, "--depth=%d" % depth, *model.flags)
                    except toolkit.ToolError as error:
                        # A deeper schedule may need more than the smallest budget.
                        self.assertTrue(depth == 4 and budget < resident, str(error))
                        self.assertIn("at least", error.stderr)
                        continue
                    result = toolkit.run(off, feeds, "--repeat", 2)
                    self.assertEqual(set(result.outputs), set(wanted), what)
                    for output in wanted:
                        self.assertEqual(result.outputs[output].dtype, wanted[output].dtype, what)
                        error = toolkit.relative_error(result.outputs[output], wanted[output])
                        self.assertLess(error, model.tolerance, "%s: %s" % (what, output))
                    if reference is None:
                        reference = result.outputs
                    self.assertTrue(toolkit.same_bits(reference, result.outputs), what + ": other bits")
                    self.check_bytes(what, result.stats, off, budget, resident, dynamic)
            self.check_off(model, off, feeds, wanted)
            self.check_replan(model, off, Path(folder), smallest)

    def check_off(self, model, off, feeds, wanted):
        """The file is a valid model, and stock ONNX Runtime runs it where it runs the model."""
        import onnx
        onnx.checker.check_model(str(off), full_check=True)
        if model.eager:
            return
        outputs = toolkit.run_onnxruntime(off, feeds)
        for name, right in wanted.items():
            self.assertLess(toolkit.relative_error(outputs[name], right), model.tolerance,
                            "the .off in ONNX Runtime: " + name)

    def check_replan(self, model, off, folder, smallest):
        """Same input, same bytes; a `.off` planned anew is the same file as the
        model planned so; stripped, it plans to the same file again."""
        flags = ["--device-memory=%d" % smallest, "--depth=2"]

        def compiled(source, name, *more):
            target = folder / name
            target.parent.mkdir(exist_ok=True)
            toolkit.compile_model(source, target, *flags, *more)
            return target.read_bytes()
        once = compiled(model.path, "once/model.off", *model.flags)
        # assertTrue: a difference of long bytes takes minutes to print.
        self.assertTrue(once == compiled(model.path, "twice/model.off", *model.flags), "another file the second time")
        self.assertTrue((folder / "once/model.off.data").read_bytes() == (folder / "twice/model.off.data").read_bytes())
        self.assertTrue(once == compiled(folder / "once/model.off", "once/again.off"), "another file from the .off")
        toolkit.compile_model(model.path, folder / "resident.off", *model.flags)
        toolkit.call("offload-opt", folder / "resident.off", "--strip", "-o", folder / "plain.onnx")
        for source, name in ((folder / "resident.off", "other/model.off"), (folder / "plain.onnx", "plain/model.off")):
            self.assertTrue(plan_of(once) == plan_of(compiled(source, name)), name)

    def check_bytes(self, what, stats, off, budget, resident, dynamic):
        measured, predicted = stats["measured"], stats["predicted"]
        for key in ("h2d_bytes", "d2h_bytes", "peak_device_bytes"):
            if dynamic:   # planned at the bound
                self.assertLessEqual(measured[key], predicted[key], "%s: %s" % (what, key))
            else:
                self.assertEqual(measured[key], predicted[key], "%s: %s" % (what, key))
        self.assertLessEqual(measured["peak_device_bytes"], budget, what)
        streamed = [w for w in toolkit.list_weights(off) if w["decision"] == "streamed"]
        if budget == resident:
            self.assertFalse(streamed, what)
        else:
            self.assertTrue(streamed, what)
            self.assertGreaterEqual(measured["h2d_bytes"], sum(w["bytes"] for w in streamed), what)


for _name in models.MODELS if toolkit.FULL else models.SAMPLE:
    def _test(self, name=_name):
        self.judge(name)
    setattr(Models, "test_" + _name.replace("-", "_"), _test)

if __name__ == "__main__":
    unittest.main()
