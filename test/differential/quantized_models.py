"""Models with quantized weights, made of those of models.py.

`get("gpt2-opset23+int4-block32-zero")` is that model with the weights of its Linear,
Conv and Embedding nodes as integers, and a DequantizeLinear for each that expands
them to the type of the activations. The name after `+` is a Form's. `quantize` does
the same to any model."""
import dataclasses
import hashlib
import itertools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import models

STORED = {"int8": np.dtype(np.int8), "uint8": np.dtype(np.uint8), "int4": np.dtype(ml_dtypes.int4),
          "uint4": np.dtype(ml_dtypes.uint4)}
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
PASSED_ON = ("Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Form:
    """How weights are stored. `rows`: tables are looked up as integers, and the rows are expanded."""
    stored: str
    group: str   # tensor, axis or block
    zero: bool = False
    block: int = 32
    rows: bool = False

    @property
    def name(self):
        return "-".join([self.stored, self.group + (str(self.block) if self.group == "block" else "")]
                        + ["zero"] * self.zero + ["rows"] * self.rows)

    @property
    def bits(self):
        return int(self.stored[-1])

    @property
    def bounds(self):
        """The least integer, and the one after the greatest."""
        return (-1 << self.bits - 1, 1 << self.bits - 1) if self.stored[0] == "i" else (0, 1 << self.bits)

    def least_opset(self, kind):
        """Scales in 16 bits came with opset 19, blocks and 4 bits with 21."""
        if self.bits == 4 or self.group == "block":
            return 21
        return 13 if kind == TensorProto.FLOAT else 19


FORMS = {form.name: form for form in itertools.chain(
    (Form(*parts) for parts in itertools.product(STORED, ("tensor", "axis", "block"), (False, True))),
    (Form(stored, "tensor", zero, rows=True) for stored, zero in itertools.product(("int8", "uint8"), (False, True))))}


@dataclass
class Quantized:
    """One weight: names and bytes of its parts as they cross, and of what they expand to."""
    name: str     # of the expanded value: that of the constant before
    kind: str     # linear, conv or embedding: of the node that named it first
    parts: dict   # name -> bytes
    expanded: int
    looked_up: bool = False  # some Gather reads the integers


# ------------------------------------------------------------------- arithmetic
def packed_bytes(array):
    return (array.size + 1) // 2 if array.dtype in (STORED["int4"], STORED["uint4"]) else array.nbytes


def _grouped(weight, form, axis):
    """The weight with the axes over which one scale holds last, and the scale's shape."""
    if form.group == "tensor":
        return weight.reshape(1, -1), ()
    if form.group == "axis":
        return np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1), (weight.shape[axis],)
    moved = np.moveaxis(weight, axis, -1)
    blocks = -(-moved.shape[-1] // form.block)
    padded = np.pad(moved, [(0, 0)] * (moved.ndim - 1) + [(0, blocks * form.block - moved.shape[-1])], mode="edge")
    shape = list(weight.shape)
    shape[axis] = blocks
    return padded.reshape(-1, form.block), tuple(shape)


def _over(values, form, weight, axis):
    """Scales or zero points, one for each element of the weight."""
    if form.group == "tensor":
        return values
    if form.group == "axis":
        return values.reshape([-1 if i == axis else 1 for i in range(weight.ndim)])
    return np.repeat(values, form.block, axis).take(np.arange(weight.shape[axis]), axis)


def quantized(weight, form, axis):
    """(integers, scale, zero point or None); the scale in the weight's type.

    Unsigned values without a zero point have no sign: they are magnitudes, and smaller by the root of how many are
    summed up, or activations would leave the range of 16 bits."""
    wide = weight.astype(np.float32)
    low, high = form.bounds
    groups, shape = _grouped(wide, form, axis)
    if form.zero:
        least, most = np.minimum(groups.min(-1), 0), np.maximum(groups.max(-1), 0)
        scale = (most - least) / (high - 1 - low)
    else:
        least, scale = None, np.abs(groups).max(-1) / (high - 1)
    scale = np.maximum(scale, 1e-5)
    zero = np.clip(np.rint(low - least / scale), low, high - 1) if form.zero else np.zeros_like(scale)
    if form.group == "block":  # made with the blocks' axis last
        last = [d for i, d in enumerate(shape) if i != axis % wide.ndim] + [shape[axis]]
        scale, zero = (np.moveaxis(v.reshape(last), -1, axis) for v in (scale, zero))
    scale, zero = (v.reshape(shape) for v in (scale, zero))
    signless = low == 0 and not form.zero
    integers = np.rint((np.abs(wide) if signless else wide) / _over(scale, form, wide, axis))
    integers = np.clip(integers + _over(zero, form, wide, axis), low, high - 1)
    if signless:
        scale = scale / np.sqrt(wide.size / max(wide.shape[0], 1))
    stored = STORED[form.stored]
    return integers.astype(np.int32).astype(stored), scale.astype(weight.dtype), (
        zero.astype(np.int32).astype(stored) if form.zero else None)


def expanded(integers, scale, zero, form, axis):
    """What DequantizeLinear makes: one product in float32, rounded to the scale's type."""
    wide = integers.astype(np.float32)
    if zero is not None:
        wide = wide - _over(zero.astype(np.float32), form, wide, axis)
    return (wide * _over(scale.astype(np.float32), form, wide, axis)).astype(scale.dtype)


# ----------------------------------------------------------------------- graphs
def _weight_kinds(model):
    """Constant -> (kind, axis of the outputs) by the first node that bears it as its weight."""
    makers = {name: node for node in model.graph.node for name in node.output}
    constants = {t.name: t for t in model.graph.initializer}

    def behind(name):
        """The constant that the operand is, and whether its last axes are turned over."""
        turned = False
        while name in makers and makers[name].op_type in PASSED_ON:
            turned ^= makers[name].op_type == "Transpose"
            name = makers[name].input[0]
        tensor = constants.get(name)
        fits = tensor is not None and tensor.data_type in FLOATS and len(tensor.dims) >= 2
        return (name, turned) if fits else (None, False)

    found = {}
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Conv":
            places = [(1, "conv", True)]
        elif node.op_type == "Gather" and attributes.get("axis", 0) == 0:
            places = [(0, "embedding", True)]
        elif node.op_type in ("MatMul", "Gemm"):
            places = [(1, "linear", bool(attributes.get("transB"))), (0, "linear", not attributes.get("transA"))]
        else:
            continue
        for index, kind, first_axis in places:
            name, turned = behind(node.input[index])
            if name:
                outputs_first = first_axis ^ (turned and kind == "linear")
                found.setdefault(name, (kind, 0 if outputs_first else len(constants[name].dims) - 1))
                break
    return found


def _quantize_axis(form, outputs_axis, rank):
    """One scale for an output; blocks go along the axis beside it."""
    if form.group == "block":
        return 1 if outputs_axis == 0 else rank - 2
    return outputs_axis


def _gather_rows(graph, name, parts):
    """Lookups in a table go to its integers, and their rows are expanded. True where there is one."""
    changed = False
    for index, node in reversed(list(enumerate(graph.node))):
        if node.op_type != "Gather" or node.input[0] != name:
            continue
        if any(a.name == "axis" and a.i for a in node.attribute):
            continue
        rows = node.output[0] + "_packed"
        after = helper.make_node("DequantizeLinear", [rows, *parts[1:]], [node.output[0]], name=node.name + "_expand")
        node.input[0], node.output[0] = parts[0], rows
        graph.node.insert(index + 1, after)
        changed = True
    return changed


def quantize(model, form):
    """Changes the model; gives its quantized weights, in order of the nodes that bear them."""
    graph, made = model.graph, []
    constants = {t.name: t for t in graph.initializer}
    for name, (kind, outputs_axis) in _weight_kinds(model).items():
        weight = numpy_helper.to_array(constants[name])
        axis = _quantize_axis(form, outputs_axis, weight.ndim)
        arrays = [a for a in quantized(weight, form, axis) if a is not None]
        names = [name + end for end in ("_q", "_scale", "_zero")][:len(arrays)]
        entry = Quantized(name, kind, {n: packed_bytes(a) for n, a in zip(names, arrays)}, weight.nbytes)
        graph.initializer.remove(constants[name])
        graph.initializer.extend(numpy_helper.from_array(a, n) for a, n in zip(arrays, names))
        if form.rows and kind == "embedding":
            entry.looked_up = _gather_rows(graph, name, names)
        if any(name in node.input for node in graph.node) or any(o.name == name for o in graph.output):
            attributes = {} if form.group == "tensor" else {"axis": axis}
            if form.group == "block":
                attributes["block_size"] = form.block
            graph.node.insert(0, helper.make_node("DequantizeLinear", names, [name], name="expand_" + name,
                                                  **attributes))
        made.append(entry)
    if form.bits == 4:
        model.ir_version = max(model.ir_version, 10)
    return made


def opset(model):
    return next(o.version for o in model.opset_import if o.domain == "")


def element_type(model):
    """Of the weights that bear the most bytes."""
    sizes = {}
    for tensor in model.graph.initializer:
        if tensor.data_type in FLOATS:
            sizes[tensor.data_type] = sizes.get(tensor.data_type, 0) + int(np.prod(tensor.dims))
    return max(sizes, key=lambda kind: (sizes[kind], -kind))


def fits(model, form):
    """Whether the model's opset has the form."""
    return opset(model) >= form.least_opset(element_type(model))


# ---------------------------------------------------------------------- by name
def split(name):
    base, form = name.split("+")
    return base, FORMS[form]


def build(name, target):
    """Writes the model of that name; gives the Model and its quantized weights."""
    base, form = split(name)
    source = models.get(base)
    model = onnx.load(source.path)
    if not fits(model, form):
        raise ValueError("%s: opset %d has no %s" % (name, opset(model), form.name))
    weights = quantize(model, form)
    onnx.save(model, target)
    return dataclasses.replace(source, name=name, path=Path(target)), weights


def get(name):
    """As models.get: made once, in the user's cache."""
    key = hashlib.sha256(Path(__file__).read_bytes() + models._key().encode()).hexdigest()[:16]
    folder = models.toolkit.CACHE / ("quantized-" + key)
    path = folder / (name + ".onnx")
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            build(name, Path(scratch) / "model.onnx")
            os.replace(Path(scratch) / "model.onnx", path)
    return dataclasses.replace(models.get(split(name)[0]), name=name, path=path)
