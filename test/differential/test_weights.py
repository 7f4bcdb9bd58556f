"""Weights that are replaced between runs, under their names in the source model.

Every weight that offload-run lists gets a new value; ONNX Runtime runs the source
model with its initializers and Constant nodes replaced likewise. With everything
resident, at half of that and at the smallest budget: ONNX Runtime's numbers, the
same bits, exactly what was set is read back, the old weights give the old bits
again in the same session, and no file is written to."""
import hashlib
import os
import sys
import tempfile
import unittest
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
import models  # noqa: E402
import toolkit  # noqa: E402

TOLERANCE = 1e-4
RANDOM = np.random.RandomState(11)


# ------------------------------------------------------------ the source model
def constant_nodes(model):
    return [n for n in model.graph.node if n.op_type == "Constant"]


def value_of(node):
    attribute = node.attribute[0]
    if attribute.name == "value":
        return numpy_helper.to_array(attribute.t)
    kind = np.float32 if "float" in attribute.name else np.int64
    return np.array(helper.get_attribute_value(attribute), kind)


def source_weights(model):
    found = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    found.update({n.output[0]: value_of(n) for n in constant_nodes(model)})
    return found


def with_weights(model, values):
    """The source model with these values instead of its own."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.name in values:
            tensor.CopyFrom(numpy_helper.from_array(values[tensor.name], tensor.name))
    for node in constant_nodes(made):
        if node.output[0] in values:
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(values[node.output[0]])))
    return made


def other_value(old, random):
    """Of the same sign and order, so that roots and divisions stay what they are."""
    if old.dtype == ml_dtypes.int4:
        return random.randint(-8, 8, old.shape).astype(old.dtype)
    if old.dtype == ml_dtypes.uint4:
        return random.randint(0, 16, old.shape).astype(old.dtype)
    if old.dtype in (np.int8, np.uint8):
        limits = np.iinfo(old.dtype)
        return random.randint(limits.min, limits.max + 1, old.shape).astype(old.dtype)
    if old.dtype.kind == "f" or old.dtype == ml_dtypes.bfloat16:
        return (old.astype(np.float32) * random.uniform(0.5, 1.5, old.shape)).astype(old.dtype)
    return old   # ids, positions, sizes


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def listed(off):
    out, _ = toolkit.call("offload-run", off, "--list-weights")
    return [line.rsplit(": ", 1)[0] for line in out.splitlines()]


# ------------------------------------------------------------ hand-made graphs
def weight(name, *shape, dtype=np.float32, scale=0.2):
    return numpy_helper.from_array((RANDOM.standard_normal(shape) * scale).astype(dtype), name)


def int64(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def integers(name, dtype, low, high, *shape):
    return numpy_helper.from_array(RANDOM.randint(low, high, shape).astype(dtype), name)


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs.split(), output.split(), name=operator.lower() + "_" + output.split()[0], **attributes)


def graph(nodes, outputs, constants, inputs=(("x", TensorProto.FLOAT, (4, 64)),)):
    made = helper.make_graph(nodes, "weights", [helper.make_tensor_value_info(*i) for i in inputs],
                             [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs], list(constants))
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def constant(name, value):
    return helper.make_node("Constant", [], [name], name="constant_" + name, value=numpy_helper.from_array(value))


IDS = (("ids", TensorProto.INT64, (2, 5)),)
CASES = {
    # The weight is read through strides, as it is, and copied in another order.
    "transposed": lambda: graph(
        [node("Transpose", "w", "t"), node("MatMul", "x t", "h"), node("MatMul", "h w", "g"),
         node("Gemm", "g v b", "k", transB=1), node("Transpose", "u", "s"), node("Concat", "s s", "c", axis=1), node("MatMul", "k c", "y")],
        ["y"], [weight("w", 128, 64), weight("v", 96, 64), weight("b", 96), weight("u", 32, 96)]),
    "bias_rides": lambda: graph(
        [node("MatMul", "x w", "h"), node("Add", "h b", "a"), node("Relu", "a", "r"), node("Gemm", "r w2 b2", "y")],
        ["y"], [weight("w", 64, 256), weight("b", 256), weight("w2", 256, 64), weight("b2", 64)]),
    "constant_nodes": lambda: graph(
        [constant("w", RANDOM.standard_normal((64, 96)).astype(np.float32)), node("MatMul", "x w", "h"),
         constant("scale", np.float32(0.7)), node("Mul", "h scale", "m"), node("MatMul", "m w2", "y"),
         helper.make_node("Constant", [], ["shift"], name="constant_shift", value_floats=[0.25]), node("Add", "y shift", "z")],
        ["z"], [weight("w2", 96, 64)]),
    "identities_and_two_uses": lambda: graph(
        [node("Identity", "w", "i"), node("Identity", "i", "j"), node("MatMul", "x j", "h"), node("MatMul", "h w", "g"),
         node("Identity", "b", "k"), node("Add", "g k", "a"), node("Mul", "a b", "y")],
        ["y"], [weight("w", 64, 64), weight("b", 64)]),
    "cast": lambda: graph(
        [node("Cast", "w", "c", to=TensorProto.FLOAT), node("MatMul", "x c", "y")],
        ["y"], [weight("w", 64, 128, dtype=np.float16)]),
    "quantized": lambda: graph(
        [node("DequantizeLinear", "q s z", "w", axis=1), node("MatMul", "x w", "h"),
         node("DequantizeLinear", "q4 s4 z4", "w4", axis=0, block_size=16), node("MatMul", "h w4", "g"),
         node("DequantizeLinear", "u s_all", "wu"), node("MatMul", "g wu", "y")],
        ["y"], [integers("q", np.int8, -128, 128, 64, 96), weight("s", 96, scale=0.01), integers("z", np.int8, -3, 4, 96),
                integers("q4", ml_dtypes.int4, -8, 8, 96, 64), weight("s4", 6, 64, scale=0.01), integers("z4", ml_dtypes.int4, -2, 3, 6, 64),
                integers("u", np.uint8, 0, 256, 64, 32), numpy_helper.from_array(np.float32(0.01), "s_all")]),
    # Import runs these nodes; their results are read in three ways.
    "folded": lambda: graph(
        [node("Cast", "q", "f", to=TensorProto.FLOAT), node("Sqrt", "variance", "root"), node("Div", "gain root", "factor"),
         node("Mul", "f factor", "small"), node("Slice", "small zero half", "left"), node("Slice", "small half end", "right"),
         node("Concat", "right left", "turned", axis=0), node("MatMul", "x w", "h"), node("Mul", "h turned", "m"),
         node("Add", "m small", "a"), node("Reshape", "left two", "square"), node("ReduceSum", "square", "sum", keepdims=0),
         node("Mul", "a sum", "y")],
        ["y", "factor"], [integers("q", np.int8, -100, 100, 32), numpy_helper.from_array(RANDOM.uniform(0.5, 2, 32).astype(np.float32), "variance"),
                          weight("gain", 32), int64("zero", 0), int64("half", 16), int64("end", 32), int64("two", 4, 4), weight("w", 64, 32)]),
    "constants_are_outputs": lambda: graph(
        [node("MatMul", "x w", "h"), node("MatMul", "h v", "y")], ["y", "w", "v"], [weight("w", 64, 64), weight("v", 64, 64)]),
    # At a small budget the table is gathered on the host, where the file is mapped.
    "table_and_tied_projection": lambda: graph(
        [node("Gather", "table ids", "e"), node("MatMul", "e w", "h"), node("Transpose", "head", "t", perm=[1, 0]), node("MatMul", "h t", "y")],
        ["y"], [weight("table", 3000, 64), weight("w", 64, 64), weight("head", 200, 64)], inputs=IDS),
    "tied": lambda: graph(
        [node("Gather", "table ids", "e"), node("MatMul", "e w", "h"), node("Transpose", "table", "t", perm=[1, 0]), node("MatMul", "h t", "y")],
        ["y"], [weight("table", 500, 64), weight("w", 64, 64)], inputs=IDS),
    # Rows by positions that follow from the shape: known before a step starts.
    "positions": lambda: graph(
        [node("Shape", "ids", "s"), node("Gather", "s one", "n"), node("Range", "zero n step", "at"), node("Gather", "places at", "p"),
         node("Gather", "table ids", "e"), node("Add", "e p", "a"), node("MatMul", "a w", "y")],
        ["y"], [weight("places", 8, 4), weight("table", 300, 4), weight("w", 4, 64),
                numpy_helper.from_array(np.int64(1), "one"), numpy_helper.from_array(np.int64(0), "zero"), numpy_helper.from_array(np.int64(1), "step")],
        inputs=(("ids", TensorProto.INT64, ("batch", "length")),)),
}
FLAGS = {"positions": ["--dim", "batch<=2", "--dim", "length<=6"]}


def feeds_of(model, seed=4):
    feeds, random = {}, np.random.RandomState(seed)
    for info in model.graph.input:
        shape = [d.dim_value or 2 + k for k, d in enumerate(info.type.tensor_type.shape.dim)]
        feeds[info.name] = (random.randint(0, 200, shape).astype(np.int64) if info.type.tensor_type.elem_type == TensorProto.INT64
                            else random.standard_normal(shape).astype(np.float32))
    return feeds


# ------------------------------------------------------------ the judge
class Weights(unittest.TestCase):
    def judge(self, folder, source, feeds, flags, wanted_names, gone=frozenset()):
        """`source` is a file in `folder`, which is not written to. `gone`: constants
        that compiling takes away."""
        model = onnx.load(source)
        old = {name: value for name, value in source_weights(model).items() if name not in gone}
        new = {name: other_value(value, RANDOM) for name, value in old.items()}
        right = self.onnxruntime(with_weights(model, new), feeds)
        plan = toolkit.plan(source, *flags)
        smallest = plan["smallest_device_memory_bytes"]
        resident = max(row["device_memory_bytes"] for row in plan["rows"])
        before, names, first, changed = digests(folder), None, None, None
        for budget in sorted({resident, max(smallest, resident // 2), smallest}, reverse=True):
            with self.subTest(budget=budget), tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                scratch = Path(scratch)
                off = scratch / "m.off"
                toolkit.compile_model(source, off, "--device-memory=%d" % budget, *flags)
                names = names or listed(off)
                self.assertLessEqual(wanted_names - gone, set(names))
                self.assertFalse(gone & set(names))
                toolkit.save_feeds({n: as_saved(old[n]) for n in names if n in old}, scratch / "old.npz")
                toolkit.save_feeds({n: as_saved(new[n]) for n in names if n in old}, scratch / "new.npz")
                compiled = digests(scratch)
                first = first or toolkit.run(off, feeds).outputs
                got = toolkit.run(off, feeds, "--repeat", 2, "--poison", "--weights", scratch / "new.npz",
                                  "--output-weights", scratch / "read.npz").outputs
                back = toolkit.run(off, feeds, "--weights", scratch / "new.npz", "--weights", scratch / "old.npz").outputs
                read = dict(np.load(scratch / "read.npz"))
                (scratch / "read.npz").unlink()
                self.assertEqual(digests(scratch), compiled)
                self.assertEqual(set(read), set(names))
                for name in set(names) & set(old):
                    self.assertTrue(same(read[name], as_saved(new[name])), name)
                for name, wanted in right.items():
                    self.assertLess(toolkit.relative_error(got[name], wanted), TOLERANCE, name)
                    self.assertGreater(toolkit.relative_error(first[name], wanted), 100 * TOLERANCE, name + " does not tell old from new")
                changed = changed or got
                self.assertTrue(toolkit.same_bits(changed, got), "other bits than the first budget's")
                self.assertTrue(toolkit.same_bits(first, back), "other bits after the old weights")
        self.assertEqual(digests(folder), before)

    def onnxruntime(self, model, feeds):
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, Path(folder) / "m.onnx")
            return toolkit.run_onnxruntime(Path(folder) / "m.onnx", feeds)


def as_saved(array):
    """numpy has no 4-bit types: offload-run takes and gives them as bytes."""
    wide = {ml_dtypes.int4: np.int8, ml_dtypes.uint4: np.uint8}.get(array.dtype.type)
    return array.astype(wide) if wide else array


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def names_of_data(model):
    """Constants of float and quantized types are weights, whatever reads them."""
    return {name for name, value in source_weights(model).items() if value.dtype not in (np.int64, np.int32, np.bool_)}


def numbers_of_gelus(model):
    """Constants that only Gelus written out read, where the opset has Gelu."""
    if model.opset_import[0].version < 20:
        return set()
    readers = {}
    for made in model.graph.node:
        for name in made.input:
            readers.setdefault(name, set()).add(made.op_type)
    numbers = (0.5, 1, 3, 0.044715, np.sqrt(2 / np.pi))
    return {name for name, value in source_weights(model).items()
            if value.dtype == np.float32 and value.size == 1 and np.isclose(value.item(), numbers, rtol=1e-6).any()
            and readers[name] <= {"Mul", "Add", "Pow"}}


def _case(name, external):
    def test(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "source"
            folder.mkdir()
            model = CASES[name]()
            feeds = feeds_of(model)
            wanted = names_of_data(model)
            onnx.save(model, folder / "m.onnx", save_as_external_data=external, location="m.data", size_threshold=0)
            self.judge(folder, folder / "m.onnx", feeds, FLAGS.get(name, []), wanted)
    return test


def _export(name):
    def test(self):
        model = models.get(name)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "source"
            folder.mkdir()
            (folder / "m.onnx").write_bytes(model.path.read_bytes())
            source = onnx.load(model.path)
            self.judge(folder, folder / "m.onnx", model.feeds(5), model.flags,
                       {t.name for t in source.graph.initializer if t.data_type == TensorProto.FLOAT}, numbers_of_gelus(source))
    return test


for _name in CASES:
    setattr(Weights, "test_" + _name, _case(_name, external=False))
for _name in ("folded", "quantized", "table_and_tied_projection"):
    setattr(Weights, "test_%s_outside" % _name, _case(_name, external=True))
for _name in ("gpt2-opset18", "resnet18-opset18", "gpt2-opset21-dynamic") + (("magika", "ocr-recognizer") if os.environ.get("OFFLOAD_FULL", "") not in ("", "0") else ()):
    setattr(Weights, "test_" + _name.replace("-", "_"), _export(_name))

if __name__ == "__main__":
    unittest.main()
