"""Models with quantized weights: int8, uint8, int4 and uint4, by tensor, axis and block,
with zero points and without, under float32, float16 and bfloat16 activations.

Each runs with everything resident, at half of that and at the smallest budget, at
depths 2 and 4: ONNX Runtime's numbers, the same bits every time; the weights cross
packed, all parts of one in one copy, and expand into bytes that the plan counts.
OFFLOAD_FULL judges every form of every model, else a fixed sample."""
import os
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
import models  # noqa: E402
import quantized_models  # noqa: E402
import toolkit  # noqa: E402


def in_float32(model):
    """The model with float32 for bfloat16: ONNX Runtime has no kernels for it. Weights have the bfloat16 values to
    which DequantizeLinear rounds."""
    graph = model.graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for node in [n for n in graph.node if n.op_type == "DequantizeLinear" and n.input[0] in constants]:
        integers, scale, *zero = (constants[name] for name in node.input)
        given = {a.name: a.i for a in node.attribute}
        group = "block" if "block_size" in given else "axis" if scale.ndim else "tensor"
        form = quantized_models.Form("int8", group, block=given.get("block_size", 0))
        constants[node.output[0]] = quantized_models.expanded(integers, scale, zero[0] if zero else None, form,
                                                              given.get("axis", 1))
        graph.node.remove(node)
    del graph.initializer[:], graph.value_info[:]
    for name, value in constants.items():
        graph.initializer.append(numpy_helper.from_array(widened(value), name))
    for node in graph.node:
        for a in node.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                a.t.CopyFrom(numpy_helper.from_array(widened(numpy_helper.to_array(a.t)), a.t.name))
            elif a.type == onnx.AttributeProto.INT and a.name in ("to", "dtype") and a.i == TensorProto.BFLOAT16:
                a.i = TensorProto.FLOAT
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.BFLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    return model


def widened(array):
    return array.astype(np.float32) if array.dtype == helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16) else array


def reference(model, feeds):
    """Output name -> value; and whether stock ONNX Runtime has the model's types."""
    loaded = onnx.load(model.path)
    stock = quantized_models.element_type(loaded) != TensorProto.BFLOAT16
    with tempfile.TemporaryDirectory() as folder:
        path = model.path
        if not stock:
            path = Path(folder) / "wide.onnx"
            onnx.save(in_float32(loaded), path)
            feeds = {name: widened(value) for name, value in feeds.items()}
        return toolkit.run_onnxruntime(path, feeds), stock


class Schedule:
    """A `.off` read back: who copies what, and how many bytes each value has."""

    def __init__(self, off):
        model = onnx.load(str(off), load_external_data=False)
        self.nodes = list(model.graph.node)
        self.makers = {name: (node, i) for node in self.nodes for i, name in enumerate(node.output)}
        self.stages = [node for node in self.nodes if node.op_type == "Stage"]
        self.constants = {t.name: t for t in model.graph.initializer}
        self.properties = {p.key: p.value for p in model.metadata_props}
        self.peak = int(self.properties["offload.peak_bytes"])
        self.plan = ([n.SerializeToString(deterministic=True) for n in self.nodes],
                     {k: v for k, v in self.properties.items() if k not in ("offload.depth", "offload.device_memory")})

    def place(self, name):
        """(offset, bytes) in the arena."""
        entry = dict(p.split("=") for p in self.properties["offload.value." + name].split())
        return int(entry["offset"]), int(entry["bytes"])

    def source(self, name):
        """The value behind copies and waits."""
        while name in self.makers and self.makers[name][0].op_type in ("Stage", "Wait"):
            node, index = self.makers[name]
            name = node.input[index]
        return name

    def expansions(self, packed):
        return [node for node in self.nodes
                if node.op_type == "DequantizeLinear" and self.source(node.input[0]) == packed]

    def is_launched(self, packed):
        return all("queue=launch" in self.properties.get("offload.node." + node.name, "")
                   for node in self.nodes if packed in node.input and node.op_type == "Gather")

    def staged_bytes(self):
        return sum(self.place(name)[1] for node in self.stages for name in node.output)


class QuantizedModels(unittest.TestCase):
    def judge(self, name):
        with tempfile.TemporaryDirectory() as folder:
            model, weights = quantized_models.build(name, Path(folder) / "model.onnx")
            feeds = model.feeds(5)
            wanted, stock = reference(model, feeds)
            plan = toolkit.plan(model.path, *model.flags)
            smallest = plan["smallest_device_memory_bytes"]
            resident = max(row["device_memory_bytes"] for row in plan["rows"])
            self.assertLess(smallest, resident, "nothing to stream")
            off, first, ran = Path(folder) / "model.off", None, []
            for budget in (resident, max(smallest, resident // 2), smallest):
                for depth in (2, 4):
                    what = "%s at %d bytes, depth %d" % (name, budget, depth)
                    try:
                        toolkit.compile_model(model.path, off, "--device-memory=%d" % budget, "--depth=%d" % depth,
                                              *model.flags)
                    except toolkit.ToolError as error:
                        # A deeper schedule may need more than the smallest budget.
                        self.assertTrue(depth == 4 and budget < resident, str(error))
                        self.assertIn("at least", error.stderr)
                        continue
                    schedule = Schedule(off)
                    if schedule.plan in ran:   # the same file but for what was asked for
                        continue
                    ran.append(schedule.plan)
                    result = toolkit.run(off, feeds, "--repeat", 2)
                    for output, right in wanted.items():
                        error = toolkit.relative_error(result.outputs[output], right)
                        self.assertLess(error, model.tolerance, "%s: %s" % (what, output))
                    first = first or result.outputs
                    self.assertTrue(toolkit.same_bits(first, result.outputs), what + ": other bits")
                    rows = {row["name"]: row for row in toolkit.list_weights(off)}
                    self.assertEqual("streamed" in {row["decision"] for row in rows.values()}, budget < resident, what)
                    self.check_bytes(what, result.stats, schedule, any("<=" in flag for flag in model.flags))
                    self.assertLessEqual(schedule.peak, budget, what)
                    self.check_weights(what, schedule, rows, weights)
            self.assertGreater(len(ran), 1, name)
            self.check_off(off, feeds, wanted, model.tolerance, stock)

    def check_bytes(self, what, stats, schedule, dynamic):
        measured, predicted = stats["measured"], stats["predicted"]
        self.assertEqual(predicted["h2d_bytes"], schedule.staged_bytes(), what)
        for key in ("h2d_bytes", "peak_device_bytes"):
            if dynamic:   # planned at the bound
                self.assertLessEqual(measured[key], predicted[key], "%s: %s" % (what, key))
            else:
                self.assertEqual(measured[key], predicted[key], "%s: %s" % (what, key))

    def check_weights(self, what, schedule, rows, weights):
        biases = {0} | {t.dims[0] * helper.tensor_dtype_to_np_dtype(t.data_type).itemsize
                        for t in schedule.constants.values() if len(t.dims) == 1}
        for weight in weights:
            where = "%s: %s" % (what, weight.name)
            packed, *riders = weight.parts
            # The launching thread looks small tables up, as it does all small arithmetic of integers.
            table = weight.looked_up and not schedule.is_launched(packed)
            if weight.looked_up and not table and not schedule.expansions(packed):
                self.assertNotIn(packed, rows, where)
                continue
            row = rows[packed]
            self.assertEqual(row["kind"], "embedding" if table else "quantized", where)
            copies = [node for node in schedule.stages if packed in node.input]
            self.assertEqual(bool(copies), row["decision"] == "streamed", where)
            for node in copies:
                for part, place in zip(node.input, node.output):
                    if part in weight.parts:
                        self.assertEqual(schedule.place(place)[1], weight.parts[part], where)
            for expansion in schedule.expansions(packed):
                offset, size = schedule.place(expansion.output[0])
                self.assertEqual(size, weight.expanded, where)
                self.assertLessEqual(offset + size, schedule.peak, where)
            if weight.looked_up:
                continue   # its scale belongs to the rows' expansion too
            self.assertTrue(schedule.expansions(packed), where)
            self.assertIn(row["bytes"] - sum(weight.parts.values()), biases, where)
            for node in copies:
                self.assertEqual(list(node.input[:len(weight.parts)]), list(weight.parts), where)
            for node in schedule.stages:
                if node not in copies:
                    self.assertFalse(set(riders) & set(node.input), where)
            for rider in riders:
                self.assertNotIn(rider, rows, where)

    def check_off(self, off, feeds, wanted, tolerance, stock):
        """The file is a valid model, and stock ONNX Runtime runs it where it has the types."""
        onnx.checker.check_model(str(off), full_check=True)
        if not stock:
            return
        outputs = toolkit.onnxruntime_session(off).run(list(wanted), feeds)
        for (name, right), got in zip(wanted.items(), outputs):
            self.assertLess(toolkit.relative_error(got, right), tolerance, "the .off in ONNX Runtime: " + name)


TYPES = ("float32", "float16", "bfloat16")
FAMILIES = {"resnet": "resnet-opset23-static-", "mobilenet": "mobilenet-v3-static-", "vit": "vit-attention-static-",
            "bert": "bert-attention-static-", "gpt2": "gpt2-attention-static-", "llama": "llama-attention-static-"}
TABLES = ("bert", "gpt2", "llama")   # these look rows up
# Older opsets, and sizes of which only bounds are known.
OTHERS = ("resnet-opset18-static-float32", "resnet-opset18-static-float16", "gpt2-eager-static-float32",
          "bert-decomposed-static-float16", "llama-decomposed-dynamic-bfloat16", "gpt2-attention-dynamic-float32",
          "gpt2-attention-dynamic-float16", "gpt2-attention-dynamic-bfloat16")
# What the suite `models` samples too is made once for both.
SAMPLED = {("resnet", "float16"): "resnet18-opset23-half", ("resnet", "bfloat16"): "resnet-opset23-dynamic-bfloat16",
           ("mobilenet", "bfloat16"): "mobilenet-v3-dynamic-bfloat16",
           ("vit", "float32"): "vit-attention-dynamic-float32", ("bert", "float32"): "bert-attention-dynamic-float32",
           ("gpt2", "float32"): "gpt2-opset23", ("gpt2", "bfloat16"): "gpt2-attention-dynamic-bfloat16"}


def every():
    """Each form that a model's opset has; rows of integers where it looks rows up."""
    for base in [base + kind for base in FAMILIES.values() for kind in TYPES] + list(OTHERS):
        variant = models.families.VARIANTS[base]
        opset = variant.family.forms[variant.form][0]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(models.families.TYPES[variant.type]))
        for form in quantized_models.FORMS.values():
            if opset >= form.least_opset(kind) and (not form.rows or base.startswith(TABLES)):
                yield base + "+" + form.name


def sample():
    """Each form once, each family in each type, and some of the others."""
    families = list(FAMILIES)
    for i, form in enumerate(form for form in quantized_models.FORMS.values() if not form.rows):
        family = families[(i + i // 6) % 6]
        kind = TYPES[(i // 6 + families.index(family)) % 3]
        yield SAMPLED.get((family, kind), FAMILIES[family] + kind) + "+" + form.name
    yield "resnet18-opset18+uint8-axis-zero"
    yield "gpt2-opset23+int8-tensor-rows"
    yield "gpt2-opset20-half+uint8-tensor-zero-rows"
    yield "llama-decomposed-dynamic-float16+int8-axis"


def crossed():
    """Each form under each type, families in turn; opset 23 has them all."""
    for i, form in enumerate(quantized_models.FORMS.values()):
        families = TABLES if form.rows else list(FAMILIES)
        for k, kind in enumerate(TYPES):
            yield FAMILIES[families[(i + k) % len(families)]] + kind + "+" + form.name


for _name in every() if toolkit.FULL else sample():
    def _test(self, name=_name):
        self.judge(name)
    setattr(QuantizedModels, "test_" + _name.replace("-", "_").replace("+", "__"), _test)

if __name__ == "__main__":
    unittest.main()
