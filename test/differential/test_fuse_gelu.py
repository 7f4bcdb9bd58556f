"""Gelu written out and compiled to one node: the values that ONNX Runtime computes of
the nodes as they are, in float32; one rounding of the true value in 16 bits; what the
operator Gelu itself makes of infinities. All in one model, which runs once."""
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
import toolkit  # noqa: E402

FORMS = {
    "tanh": ["a = Mul x half", "b = Pow x three", "c = Mul b cubic", "d = Add x c", "e = Mul d root", "f = Tanh e",
             "g = Add f one", "y = Mul a g"],
    "tanh_products": ["b = Mul x x", "c = Mul b x", "h = Mul cubic c", "d = Add h x", "e = Mul root d", "f = Tanh e",
                      "g = Add one f", "a = Mul x g", "y = Mul a half"],
    "erf": ["a = Div x sqrt2", "b = Erf a", "c = Add b one", "d = Mul half c", "y = Mul x d"],
    "erf_inverse": ["a = Mul inverse x", "b = Erf a", "c = Add one b", "d = Mul x c", "y = Mul d half"],
}
CONSTANTS = {"half": 0.5, "one": 1, "three": 3, "cubic": 0.044715, "root": np.sqrt(2 / np.pi), "sqrt2": np.sqrt(2),
             "inverse": np.sqrt(0.5)}
SPREAD = np.concatenate([np.random.RandomState(4).standard_normal(4000) * scale for scale in (0.01, 1, 4)])
FEEDS = {"spread": (TensorProto.FLOAT, SPREAD),
         "extreme": (TensorProto.FLOAT, np.array([0.0, -0.0, 10, -10, 1e4, -1e4])),
         "infinite": (TensorProto.FLOAT, np.array([np.inf, -np.inf, np.nan])),
         "half16": (TensorProto.FLOAT16, SPREAD), "brain16": (TensorProto.BFLOAT16, SPREAD)}
ROUNDINGS = {"half16": 2.0 ** -11, "brain16": 2.0 ** -8}


def array(name):
    kind, values = FEEDS[name]
    return values.astype(helper.tensor_dtype_to_np_dtype(kind))


def written_out(feed, form):
    """Nodes and constants of `feed.form.y`."""
    prefix, nodes, read = "%s.%s." % (feed, form), [], set()
    for line in FORMS[form]:
        result, _, operator, *operands = line.split()
        read.update(operands)
        nodes.append(helper.make_node(operator, [feed if o == "x" else prefix + o for o in operands], [prefix + result]))
    constants = [numpy_helper.from_array(np.array(value).astype(array(feed).dtype), prefix + name)
                 for name, value in CONSTANTS.items() if name in read]
    return nodes, constants


def model(feeds, nodes=()):
    """All forms of all feeds, and `nodes` of results that are called .y too."""
    nodes, constants = list(nodes), []
    for feed in feeds:
        for form in FORMS:
            more = written_out(feed, form)
            nodes += more[0]
            constants += more[1]
    outputs = [name for node in nodes for name in node.output if name.endswith(".y")]
    infos = {feed: helper.make_tensor_value_info(feed, FEEDS[feed][0], array(feed).shape) for feed in feeds}
    graph = helper.make_graph(nodes, "gelus", list(infos.values()), [
        helper.make_tensor_value_info(name, FEEDS[name.split(".")[0]][0], array(name.split(".")[0]).shape)
        for name in outputs], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


class FuseGelu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        plain = [helper.make_node("Gelu", ["infinite"], ["infinite.operator_%s.y" % kind], approximate=kind)
                 for kind in ("none", "tanh")]
        with tempfile.TemporaryDirectory() as folder:
            source, off, judged = (Path(folder) / name for name in ("m.onnx", "m.off", "judged.onnx"))
            onnx.save(model(FEEDS, plain), source)
            toolkit.compile_model(source, off)
            cls.operators = [node.op_type for node in onnx.load(off).graph.node if node.domain == ""]
            cls.got = toolkit.run(off, {feed: array(feed) for feed in FEEDS}).outputs
            onnx.save(model(["spread", "extreme"]), judged)
            cls.right = toolkit.run_onnxruntime(judged, {feed: array(feed) for feed in ("spread", "extreme")})

    def test_every_form_is_one_node(self):
        self.assertEqual(self.operators, ["Gelu"] * (len(FEEDS) * len(FORMS) + 2))

    def test_float32_as_written_out(self):
        self.assertEqual(len(self.right), 2 * len(FORMS))
        for name, right in self.right.items():
            with self.subTest(name):
                self.assertLess(toolkit.relative_error(self.got[name], right), 1e-6)
        for form in FORMS:
            name = "extreme.%s.y" % form
            np.testing.assert_array_equal(np.signbit(self.got[name][:2]), [False, True], name)

    def test_16_bits_round_once(self):
        import torch
        for feed, rounding in ROUNDINGS.items():
            for form in FORMS:
                with self.subTest(feed, form=form):
                    x = torch.from_numpy(array(feed).astype(np.float64))
                    right = torch.nn.functional.gelu(x, approximate="tanh" if "tanh" in form else "none").numpy()
                    got = self.got["%s.%s.y" % (feed, form)].astype(np.float64)
                    # 1 + tanh cancels for negative x: the kernel's float32 leaves 1e-6 there.
                    np.testing.assert_array_less(np.abs(got - right), 1.01 * rounding * np.abs(right) + 1e-6)

    def test_infinities_as_of_the_operator(self):
        for form in FORMS:
            kind = "tanh" if "tanh" in form else "none"
            np.testing.assert_array_equal(self.got["infinite.%s.y" % form], self.got["infinite.operator_%s.y" % kind], form)


if __name__ == "__main__":
    unittest.main()
