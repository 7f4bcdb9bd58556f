"""What simplify-layout makes of a block of a vision transformer, by its values.

Batch, sequence and heads are as long as each other in turn, and of size 1, so that
a wrong order of axes would still have right shapes. The block runs on the host as
it was and as the pass makes it: the same values, by fewer copies. ONNX Runtime
runs the plain model and the schedule, with the batch given by number and by name."""
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import toolkit  # noqa: E402

PLAN = "classify,assign-plan{target=host},insert-staging,insert-grad-transfer,verify-schedule"
TURN = "<perm: ints = [1, 0, 2]>"


def chain(name):
    """From [sequence, batch, width] to [batch, heads, sequence, size]."""
    return ("{n}1 = Reshape ({n}, by_head) {n}2 = Transpose {turn} ({n}1) {n}3 = Reshape ({n}2, heads)"
            .format(n=name, turn=TURN))


def block(batch, length, heads, size, named):
    """The batch by name where `named`: Reshapes then find it by -1."""
    width = heads * size
    weights = np.random.RandomState(7)

    def tensor(name, *shape):
        values = weights.uniform(-0.5, 0.5, shape).astype(np.float32).ravel()
        return "float[%s] %s = {%s}" % (",".join(map(str, shape)), name, ", ".join("%.9g" % v for v in values))

    def numbers(name, *values):
        return "int64[%d] %s = {%s}" % (len(values), name, ", ".join(map(str, values)))
    many = -1 if named else batch
    constants = [tensor("w", width, 3 * width), tensor("b", 3 * width), tensor("w_out", width, width), tensor("b_out", width),
                 numbers("parts", length, many, 3, width), numbers("by_head", length, many * heads if many > 0 else -1, size),
                 numbers("heads", many, heads, length, size), numbers("rows", -1, width), numbers("whole", length, many, width),
                 numbers("first", 0), numbers("last", -2), *("int64 i%d = {%d}" % (i, i) for i in range(3))]
    shape = "%s,%d,%d" % ("batch" if named else batch, length, width)
    return """<ir_version: 10, opset_import: ["": 23]>
block (float[{shape}] x) => (float[{shape}] y) <{constants}> {{
  r = Softmax (x) t = Transpose {turn} (r) p = MatMul (t, w) d = Add (p, b) s = Reshape (d, parts)
  u = Unsqueeze (s, first) f = Transpose <perm: ints = [3, 1, 2, 0, 4]> (u) c = Squeeze (f, last)
  q = Gather (c, i0) k = Gather (c, i1) v = Gather (c, i2) {q} {k} {v}
  a = Attention (q3, k3, v3) a1 = Transpose <perm: ints = [2, 0, 1, 3]> (a) a2 = Reshape (a1, rows)
  o = Gemm <transB: int = 1> (a2, w_out, b_out) o1 = Reshape (o, whole) back = Transpose {turn} (o1) y = Add (back, x)
}}""".format(shape=shape, constants=", ".join(constants), turn=TURN, **{n: chain(n) for n in "qkv"})


def copies(off):
    """Transposes that make no view."""
    import onnx
    model = onnx.load(str(off))
    views = {p.key for p in model.metadata_props if "view=" in p.value}
    return sum(n.op_type == "Transpose" and "offload.value." + n.output[0] not in views for n in model.graph.node)


class Layout(unittest.TestCase):
    def judge(self, batch, length, heads, size, named):
        what = "batch %d, length %d, heads %d, size %d, named %d" % (batch, length, heads, size, named)
        feeds = {"x": np.random.RandomState(3).uniform(-1, 1, (batch, length, heads * size)).astype(np.float32)}
        with tempfile.TemporaryDirectory() as folder:
            text, model = Path(folder) / "block.onnxtxt", Path(folder) / "block.onnx"
            before, after = Path(folder) / "before.off", Path(folder) / "after.off"
            text.write_text(block(batch, length, heads, size, named))
            flags = ["--dim", "batch<=4"] if named else []
            toolkit.call("offload-opt", text, "--passes=strip", "-o", model, *flags)
            toolkit.call("offload-opt", text, "--passes=fuse-linear," + PLAN, "-o", before, *flags)
            toolkit.call("offload-opt", text, "--passes=fuse-linear,simplify-layout," + PLAN, "-o", after, *flags)
            self.assertEqual(copies(after), 0, what)
            if min(batch, length, heads) > 1:
                self.assertGreater(copies(before), 0, what)
            results = [toolkit.run(off, feeds).outputs for off in (before, after)]
            # A row's place among others may change how BLAS sums it.
            self.assertLess(toolkit.relative_error(results[1]["y"], results[0]["y"]), 1e-6, what)
            for path in (model, after):
                right = toolkit.onnxruntime_session(path).run(["y"], feeds)[0]
                self.assertLess(toolkit.relative_error(results[1]["y"], right), 1e-5, "%s: %s" % (what, path.name))

    def test_sizes_that_are_equal(self):
        for batch, length, heads, named in ((2, 3, 4, False), (2, 2, 2, True), (3, 2, 3, True), (1, 3, 2, True), (3, 1, 2, False)):
            with self.subTest(batch=batch, length=length, heads=heads, named=named):
                self.judge(batch, length, heads, 4, named)


if __name__ == "__main__":
    unittest.main()
