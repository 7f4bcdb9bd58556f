"""Single-node models over the attributes of each operator, for test_kernels.py.

Every case is one node with its operands as arrays. Operands that an operator
needs before the step (shapes, axes, bounds) are given as `fixed` and become
initializers; the rest are inputs. Values are drawn with a fixed seed."""
import itertools
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np
from onnx import TensorProto, defs, helper, numpy_helper

F32, F16, F64, I64, I32 = np.float32, np.float16, np.float64, np.int64, np.int32
BF16 = ml_dtypes.bfloat16
CASES = []


@dataclass
class Case:
    name: str
    op: str
    opset: int
    inputs: list  # arrays, or None for an absent operand
    attributes: dict = field(default_factory=dict)
    outputs: int = 1
    fixed: tuple = ()  # indices of operands that are initializers
    tolerance: float = 1e-4
    reference: bool = False  # judged by ONNX's reference implementation
    widened: bool = False  # judged by the same case in float32

    def model(self):
        names = ["" if x is None else "x%d" % i for i, x in enumerate(self.inputs)]
        outputs = ["y%d" % i for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, **self.attributes)
        inputs, initializers = [], []
        for i, (name, x) in enumerate(zip(names, self.inputs)):
            if x is None:
                continue
            kind = element_type(x)
            if i in self.fixed or kind in (TensorProto.INT4, TensorProto.UINT4):
                initializers.append(numpy_helper.from_array(x, name))
            else:
                inputs.append(helper.make_tensor_value_info(name, kind, x.shape))
        graph = helper.make_graph([node], "case", inputs,
                                  [helper.make_empty_tensor_value_info(o) for o in outputs], initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def in_float(self):
        """The same values and node in float32, where this one is in bfloat16."""
        return replace(self, widened=False, inputs=[x.astype(F32) if x is not None and x.dtype == BF16 else x
                                                    for x in self.inputs])

    def feeds(self):
        return {"x%d" % i: x for i, x in enumerate(self.inputs)
                if x is not None and i not in self.fixed
                and element_type(x) not in (TensorProto.INT4, TensorProto.UINT4)}


def element_type(x):
    return helper.np_dtype_to_tensor_dtype(x.dtype)


def draw(*shape, dtype=F32, seed=None, low=None, high=None):
    seed = len(CASES) if seed is None else seed
    r = np.random.RandomState(1000 + seed + sum(shape))
    if np.dtype(dtype).kind in "iu":
        return r.randint(-9 if low is None and np.dtype(dtype).kind == "i" else low or 0,
                         high or 10, shape).astype(dtype)
    if np.dtype(dtype) == np.bool_:
        return r.rand(*shape) > 0.5
    x = r.standard_normal(shape)
    if low is not None:
        x = r.rand(*shape) * (high - low) + low
    return np.asarray(x).astype(dtype)


def ints(*values):
    return np.array(values, I64)


def add(op, inputs, opset=17, outputs=1, fixed=(), tolerance=None, reference=False, **attributes):
    if tolerance is None:
        half = any(x is not None and x.dtype == F16 for x in inputs)
        tolerance = 2e-2 if half else 1e-4
    name = "%03d_%s_%d" % (len(CASES), op, opset)
    CASES.append(Case(name, op, opset, list(inputs), attributes, outputs, fixed, tolerance, reference))


def takes_bfloat16(op, opset):
    constraints = defs.get_schema(op, opset, "").type_constraints
    return any("tensor(bfloat16)" in constraint.allowed_type_strs for constraint in constraints)


def in_bfloat16():
    """Cases in float16 in bfloat16 too, at the first opset from theirs on that has it. Casts name their types, and
    scales are judged with the quantized weights."""
    for case in list(CASES):
        halves = [x is not None and x.dtype == F16 for x in case.inputs]
        opset = next((o for o in range(case.opset, 26) if takes_bfloat16(case.op, o)), None)
        if not any(halves) or opset is None or case.op in ("Cast", "DequantizeLinear"):
            continue
        inputs = [x.astype(BF16) if half else x for x, half in zip(case.inputs, halves)]
        CASES.append(replace(case, name="%03d_%s_%d_bfloat16" % (len(CASES), case.op, opset), opset=opset,
                             inputs=inputs, widened=True))


def elementwise():
    for op in ("Abs Ceil Cos Elu Erf Exp Floor HardSigmoid HardSwish LeakyRelu Neg Relu Round Selu Sigmoid "
               "Sign Sin Softplus Softsign Tanh ThresholdedRelu Sinh Cosh Asinh Atan Tan").split():
        for dtype in (F32, F16):
            add(op, [draw(3, 7, dtype=dtype)], opset=17)
        add(op, [draw(2, 3, 5)], opset=22)
    for op in ("Acos", "Asin", "Atanh"):
        add(op, [draw(4, 5, low=-0.9, high=0.9)])
    add("Acosh", [draw(4, 5, low=1.1, high=5)])
    for op in ("Log", "Sqrt", "Reciprocal"):
        for dtype in (F32, F16):
            add(op, [draw(4, 5, dtype=dtype, low=0.1, high=4)])
    add("Round", [np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.49], F32)])
    for alpha in (0.5, 2.0):
        add("Elu", [draw(3, 4)], alpha=alpha)
        add("Celu", [draw(3, 4)], alpha=alpha)
        add("LeakyRelu", [draw(3, 4)], alpha=alpha)
        add("ThresholdedRelu", [draw(3, 4)], alpha=alpha)
        add("HardSigmoid", [draw(3, 4)], alpha=alpha, beta=0.25)
        add("Selu", [draw(3, 4)], alpha=alpha, gamma=1.5)
    add("Swish", [draw(3, 4)], opset=24, alpha=1.5, reference=True)
    for approximate in ("none", "tanh"):
        for dtype in (F32, F16):
            add("Gelu", [draw(3, 40, dtype=dtype)], opset=20, approximate=approximate)
    add("Mish", [draw(3, 4)], opset=18)
    add("Abs", [draw(3, 4, dtype=I64)])
    add("Neg", [draw(3, 4, dtype=I32)])
    add("Sign", [draw(3, 4, dtype=I64)])
    add("Relu", [draw(3, 4, dtype=I32)])
    add("Not", [draw(3, 4, dtype=bool)])
    add("BitwiseNot", [draw(3, 4, dtype=I32)], opset=18)
    special = np.array([1, np.nan, np.inf, -np.inf, 0], F32)
    add("IsNaN", [special])
    for positive, negative in itertools.product((0, 1), repeat=2):
        add("IsInf", [special], opset=20, detect_positive=positive, detect_negative=negative)
    low, high = np.array(-0.5, F32), np.array(0.75, F32)
    for bounds in ([low, high], [None, high], [low], []):
        add("Clip", [draw(3, 5), *bounds], fixed=(1, 2))
    add("Clip", [draw(3, 5, dtype=F16), low.astype(F16), high.astype(F16)], fixed=(1, 2))
    add("Clip", [draw(3, 5, dtype=I64), np.array(-2, I64), np.array(3, I64)], fixed=(1, 2))
    add("Clip", [draw(3, 5), high, low], fixed=(1, 2))
    add("Identity", [draw(3, 5)])
    add("Dropout", [draw(3, 5)])
    add("Dropout", [draw(3, 5), np.array(0.3, F32), np.array(False)], outputs=2, fixed=(1, 2))


def casts():
    kinds = {F32: 1, F16: 10, F64: 11, I64: 7, I32: 6, np.int8: 3, np.uint8: 2, np.bool_: 9, np.int16: 5,
             np.uint16: 4, np.uint32: 12, np.uint64: 13}
    x = np.array([[0, 1, 2.5], [3.49, 100, 7.9]])
    for source, target in itertools.product(kinds, kinds):
        if source != target:
            add("Cast", [x.astype(source)], to=kinds[target])
    for other, number in kinds.items():
        add("Cast", [x.astype(BF16)], to=number, reference=True, tolerance=1e-2)
        add("Cast", [x.astype(other)], to=16, reference=True, tolerance=1e-2)
    add("Cast", [np.array([1e6, -1e6, 1e-9], F32)], to=10)
    add("CastLike", [draw(3, 2), draw(1, dtype=I64)], opset=19)


def broadcasting():
    shapes = [((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (2, 3)), ((1, 5), (3, 1)), ((3, 4), ())]
    for op in ("Add", "Sub", "Mul", "Div"):
        for a, b in shapes:
            add(op, [draw(*a, seed=1), draw(*b, seed=2)])
        for dtype in (F16, F64, I64, I32, np.uint8):
            divisor = draw(4, dtype=dtype, seed=3, low=1, high=5)
            add(op, [draw(3, 4, dtype=dtype, seed=4), divisor])
    add("Div", [ints(-7, 7, -7, 7), ints(2, 2, -2, -2)])
    for fmod, dtype in ((0, I64), (1, I64), (1, F32), (0, I32), (1, F16)):
        add("Mod", [np.array([-7, 7, -7, 7, 6], dtype), np.array([2, 2, -2, -3, 4], dtype)], fmod=fmod)
    for exponent in (np.array(2, F32), np.array(0.5, F32), np.array([3, 2, 1], F32), np.array(2, I64),
                     np.array([2, 3, 0], I32), np.array(-1, F32)):
        add("Pow", [draw(4, 3, low=0.2, high=3), exponent])
    add("Pow", [draw(4, 3, dtype=F16, low=0.2, high=3), np.array(2, F16)])
    add("Pow", [draw(4, 3, dtype=I64), np.array([2, 3, 1], I64)])
    add("Pow", [draw(4, 3, dtype=I32), np.array([2, 3, 1], F32)])
    for op in ("Max", "Min", "Sum", "Mean"):
        add(op, [draw(3, 4)])
        add(op, [draw(3, 4, seed=1), draw(4, seed=2)])
        add(op, [draw(4, seed=1), draw(3, 1, seed=2), draw(2, 1, 1, seed=3)])
        add(op, [draw(3, 4, dtype=F16, seed=1), draw(4, dtype=F16, seed=2)])
    add("Max", [draw(3, 4, dtype=I64, seed=1), draw(4, dtype=I64, seed=2)])
    add("Min", [np.array([1, np.nan, 3], F32), np.array([2, 2, np.nan], F32)])
    add("PRelu", [draw(2, 3, 4), draw(3, 1, seed=9)])
    add("PRelu", [draw(2, 3, 4, dtype=F16), draw(1, dtype=F16, seed=9)])
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        for dtype in (F32, I64, I32, F16):
            add(op, [draw(3, 4, dtype=dtype, seed=1), draw(4, dtype=dtype, seed=2)])
    add("Equal", [draw(3, 4, dtype=bool, seed=1), draw(4, dtype=bool, seed=2)])
    for op in ("And", "Or", "Xor"):
        add(op, [draw(3, 4, dtype=bool, seed=1), draw(4, dtype=bool, seed=2)])
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        add(op, [draw(3, 4, dtype=I32, seed=1), draw(4, dtype=I32, seed=2)], opset=18)
    for dtype in (F32, F16, I64, bool, np.uint8):
        add("Where", [draw(3, 1, dtype=bool), draw(3, 4, dtype=dtype, seed=1), draw(4, dtype=dtype, seed=2)],
            reference=dtype in (bool, F16))


def products():
    for ta, tb in itertools.product((0, 1), repeat=2):
        for c in (None, draw(5, seed=1), draw(3, 5, seed=2), draw(3, 1, seed=3), draw(seed=4)):
            a = draw(*((4, 3) if ta else (3, 4)), seed=5)
            b = draw(*((5, 4) if tb else (4, 5)), seed=6)
            add("Gemm", [a, b] + ([] if c is None else [c]), transA=ta, transB=tb, alpha=0.5, beta=2.0)
    add("Gemm", [draw(3, 4), draw(4, 5)], alpha=3.0)
    add("Gemm", [draw(3, 4), draw(4, 5)])
    add("Gemm", [draw(3, 64, dtype=F16), draw(64, 5, dtype=F16), draw(5, dtype=F16)])
    add("Gemm", [draw(64, 3, dtype=F16), draw(5, 64, dtype=F16), draw(3, 1, dtype=F16)], transA=1, transB=1, alpha=0.5,
        beta=2.0)
    add("Gemm", [draw(3, 4, dtype=F16), draw(4, 5, dtype=F16)], alpha=3.0)
    add("MatMul", [draw(2, 3, 4, 8, dtype=F16), draw(2, 1, 8, 5, dtype=F16)])
    add("MatMul", [draw(70, 4100, dtype=F16), draw(4100, 130, dtype=F16)])   # several tiles each way
    for a, b in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((4,), (4, 5)),
                 ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
                 ((0, 4), (4, 5)), ((2, 2, 3, 4), (2, 2, 4, 3))):
        add("MatMul", [draw(*a, seed=1), draw(*b, seed=2)])
    add("MatMul", [draw(2, 3, 64, dtype=F16), draw(64, 5, dtype=F16)])
    add("MatMul", [draw(3, 4, dtype=I32), draw(4, 5, dtype=I32)])
    for equation, shapes in (("ij,jk->ik", ((3, 4), (4, 5))), ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
                             ("ij->ji", ((3, 4),)), ("...ij,jk", ((2, 3, 4), (4, 5))), ("ii->i", ((4, 4),)),
                             ("bhid,bhjd->bhij", ((2, 3, 4, 5), (2, 3, 6, 5))), ("i,j->ij", ((3,), (4,))),
                             ("ij->", ((3, 4),))):
        add("Einsum", [draw(*s, seed=i) for i, s in enumerate(shapes)], equation=equation)


def attention():
    for heads, kv, dtype in ((4, 4, F32), (4, 2, F32), (4, 1, F32), (2, 2, F16)):
        q, k, v = draw(2, heads, 5, 8, dtype=dtype), draw(2, kv, 5, 8, dtype=dtype), draw(2, kv, 5, 6, dtype=dtype)
        for causal in (0, 1):
            add("Attention", [q, k, v], opset=23, is_causal=causal, reference=True)
        mask = draw(5, 5, dtype=bool, seed=3) | np.eye(5, dtype=bool)
        add("Attention", [q, k, v, mask], opset=23, reference=True)
        add("Attention", [q, k, v, draw(2, 1, 5, 5, dtype=dtype)], opset=23, scale=0.3, reference=True)
    q, k, v = draw(2, 5, 12), draw(2, 7, 6), draw(2, 7, 6)
    add("Attention", [q, k, v], opset=23, q_num_heads=4, kv_num_heads=2, reference=True)
    add("Attention", [q, k, v], opset=23, q_num_heads=4, kv_num_heads=2, softcap=2.0, reference=True)
    q, k, v = draw(1, 2, 1, 8), draw(1, 2, 1, 8), draw(1, 2, 1, 8)
    past = [draw(1, 2, 6, 8, seed=1), draw(1, 2, 6, 8, seed=2)]
    add("Attention", [q, k, v, None, *past], opset=23, outputs=3, is_causal=1, reference=True)
    q, k, v = draw(1, 2, 3, 8), draw(1, 2, 3, 8), draw(1, 2, 3, 8)
    for mode in range(4):
        # ONNX's reference gives mode 0 with the soft cap applied, against the
        # operator's text and its function body.
        add("Attention", [q, k, v, draw(3, 9), *past], opset=23, outputs=4, qk_matmul_output_mode=mode,
            reference=True, **({"softcap": 3.0} if mode else {}))
    q, k, v = draw(2, 2, 3, 8), draw(2, 2, 7, 8), draw(2, 2, 7, 8)
    masked = np.ones((3, 7), bool)
    masked[1] = False
    add("Attention", [q, k, v, masked], opset=23, reference=True)
    add("Attention", [q, k, v, draw(3, 5)], opset=24, reference=True)
    for causal in (0, 1):
        add("Attention", [q, k, v, None, None, None, ints(5, 7)], opset=24, is_causal=causal, reference=True)
    for left, right in ((2, 1), (-1, 0), (1, -1)):
        add("Attention", [q, k, v], opset=25, left_window_size=left, right_window_size=right, reference=True)
    q = draw(2, 2, 70, 8)
    add("Attention", [q, draw(2, 2, 70, 8, seed=1), draw(2, 2, 70, 8, seed=2)], opset=23, is_causal=1, reference=True)
    for dtype in (F32, F16):  # what fused kernels take, and what they do not
        q, k, v = draw(2, 9, 64, dtype=dtype), draw(2, 9, 16, dtype=dtype, seed=1), draw(2, 9, 16, dtype=dtype, seed=2)
        flat = {"q_num_heads": 8, "kv_num_heads": 2, "reference": True}
        mask = draw(2, 1, 9, 9, dtype=bool, seed=3) | np.eye(9, dtype=bool)
        for causal in (0, 1):
            add("Attention", [q, k, v], opset=23, is_causal=causal, **flat)
            add("Attention", [q, k, v, mask], opset=23, is_causal=causal, **flat)
        add("Attention", [q, k, v, draw(2, 8, 9, 9, dtype=dtype, seed=4)], opset=24, **flat)
        add("Attention", [q, k, v], opset=23, is_causal=1, softcap=2.0, **flat)
        past = [draw(2, 2, 4, 8, dtype=dtype, seed=5), draw(2, 2, 4, 8, dtype=dtype, seed=6)]
        add("Attention", [q, k, v, None, *past], opset=23, outputs=3, is_causal=1, **flat)
        add("Attention", [q, k[:, :1], v[:, :1], None, *past], opset=23, outputs=1, **flat)
        for rows in (3, 14):  # fewer and more than keys
            add("Attention", [draw(2, rows, 64, dtype=dtype), k, v], opset=23, is_causal=1, **flat)
    for interleaved, rotated in itertools.product((0, 1), (0, 4)):
        half = (rotated or 8) // 2
        cache = [draw(10, half, seed=1), draw(10, half, seed=2)]
        positions = np.array([[0, 3, 9], [1, 1, 2]], I64)
        attributes = {"interleaved": interleaved, **({"rotary_embedding_dim": rotated} if rotated else {})}
        add("RotaryEmbedding", [draw(2, 2, 3, 8), *cache, positions], opset=23, num_heads=2, reference=True,
            **attributes)
        add("RotaryEmbedding", [draw(3, 2, 5, 8), draw(1, 5, half, seed=1), draw(1, 5, half, seed=2)], opset=23,
            reference=True, **attributes)   # one row of tables for several texts, as exporters write
        add("RotaryEmbedding", [draw(2, 3, 16, dtype=F16), draw(2, 3, half, dtype=F16, seed=1),
                                draw(2, 3, half, dtype=F16, seed=2)], opset=23, num_heads=2, reference=True,
            **attributes)
        add("RotaryEmbedding", [draw(2, 3, 16), draw(2, 3, half, seed=1), draw(2, 3, half, seed=2)], opset=23,
            num_heads=2, reference=True, **attributes)


def convolution():
    for shape, weight, attributes in (
            ((2, 3, 8, 9), (4, 3, 3, 3), {}),
            ((2, 3, 8, 9), (4, 3, 3, 3), dict(pads=[1, 1, 1, 1], strides=[2, 2])),
            ((2, 3, 8, 9), (4, 3, 3, 2), dict(pads=[0, 1, 2, 0], dilations=[2, 1])),
            ((1, 4, 8, 9), (4, 1, 3, 3), dict(group=4, pads=[1, 1, 1, 1])),
            ((1, 4, 8, 9), (6, 2, 1, 1), dict(group=2)),
            ((2, 3, 11), (4, 3, 3), dict(pads=[1, 2], strides=[2])),
            ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), dict(pads=[1, 0, 0, 0, 1, 1])),
            ((1, 2, 7, 7), (3, 2, 3, 3), dict(auto_pad="SAME_UPPER", strides=[2, 2])),
            ((1, 2, 7, 8), (3, 2, 2, 4), dict(auto_pad="SAME_LOWER")),
            ((1, 2, 7, 8), (3, 2, 2, 4), dict(auto_pad="VALID", strides=[3, 1])),
            ((1, 1, 1, 1), (3, 1, 1, 1), {})):
        add("Conv", [draw(*shape, seed=1), draw(*weight, seed=2)], **attributes)
        add("Conv", [draw(*shape, seed=1), draw(*weight, seed=2), draw(weight[0], seed=3)], opset=22, **attributes)
        add("Conv", [draw(*shape, seed=1, dtype=F16), draw(*weight, seed=2, dtype=F16)], **attributes)
    for shape, weight, attributes in (
            ((2, 3, 5, 6), (3, 4, 3, 3), {}),
            ((2, 3, 5, 6), (3, 4, 3, 3), dict(strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])),
            ((2, 3, 5, 6), (3, 4, 2, 2), dict(strides=[2, 2])),
            ((1, 3, 5, 6), (3, 4, 3, 3), dict(strides=[3, 2], pads=[0, 1, 1, 0])),
            ((1, 3, 5, 6), (3, 4, 3, 3), dict(strides=[2, 2], output_shape=[10, 12])),
            ((1, 3, 5, 6), (3, 4, 3, 3), dict(strides=[2, 2], output_shape=[10, 13], output_padding=[1, 1])),
            ((1, 4, 5, 6), (4, 2, 3, 3), dict(group=2, dilations=[2, 1])),
            ((1, 3, 7), (3, 4, 3), dict(strides=[2], pads=[1, 0])),
            ((1, 2, 3, 4, 3), (2, 3, 2, 2, 2), dict(strides=[2, 1, 2])),
            ((1, 3, 5, 6), (3, 4, 3, 3), dict(strides=[2, 2], auto_pad="SAME_UPPER")),
            ((1, 3, 5, 6), (3, 4, 4, 3), dict(strides=[3, 2], auto_pad="SAME_LOWER"))):
        add("ConvTranspose", [draw(*shape, seed=1), draw(*weight, seed=2)], **attributes)
        group = attributes.get("group", 1)
        add("ConvTranspose", [draw(*shape, seed=1), draw(*weight, seed=2), draw(weight[1] * group, seed=3)],
            opset=22, **attributes)


def pooling():
    for op in ("MaxPool", "AveragePool"):
        for shape, attributes in (
                ((2, 3, 8, 9), dict(kernel_shape=[3, 3])),
                ((2, 3, 8, 9), dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])),
                ((2, 3, 8, 9), dict(kernel_shape=[3, 2], pads=[0, 1, 2, 0], strides=[2, 3])),
                ((2, 3, 8, 9), dict(kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)),
                ((2, 3, 8, 9), dict(kernel_shape=[3, 3], strides=[3, 2], ceil_mode=1, pads=[1, 1, 1, 1])),
                ((1, 2, 11), dict(kernel_shape=[4], strides=[3])),
                ((1, 2, 5, 6, 7), dict(kernel_shape=[2, 3, 2], pads=[1, 0, 0, 0, 1, 1])),
                ((1, 2, 7, 8), dict(kernel_shape=[3, 2], auto_pad="SAME_UPPER", strides=[2, 2])),
                ((1, 2, 7, 8), dict(kernel_shape=[2, 3], auto_pad="SAME_LOWER", strides=[2, 2])),
                ((1, 2, 7, 8), dict(kernel_shape=[2, 3], auto_pad="VALID", strides=[2, 2]))):
            for dtype in (F32, F16):
                add(op, [draw(*shape, dtype=dtype)], opset=17 if dtype == F32 else 22, **attributes)
            if op == "AveragePool":
                add(op, [draw(*shape)], opset=22, count_include_pad=1, **attributes)
            else:
                add(op, [draw(*shape)], opset=22, outputs=2, **attributes)
    add("MaxPool", [draw(1, 2, 9, 9)], dilations=[2, 3], kernel_shape=[3, 2], opset=22)
    add("AveragePool", [draw(1, 2, 9, 9)], dilations=[2, 3], kernel_shape=[3, 2], opset=19)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        for dtype in (F32, F16):
            add(op, [draw(2, 3, 5, 6, dtype=dtype)])
        add(op, [draw(2, 3, 7)], opset=22)


def resize():
    none = np.array([], F32)
    for mode in ("nearest", "linear", "cubic"):
        for transform in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                          "half_pixel_symmetric"):
            for scales in ([1, 1, 2, 2], [1, 1, 0.6, 1.7], [1, 1, 3, 1]):
                opset = 19 if transform == "half_pixel_symmetric" else 13
                extra = {}
                if mode == "nearest":
                    extra = {"nearest_mode": "floor" if transform == "asymmetric" else "round_prefer_floor"}
                add("Resize", [draw(1, 2, 5, 7), none if opset == 13 else None, np.array(scales, F32)], opset=opset,
                    fixed=(1, 2), mode=mode, coordinate_transformation_mode=transform, **extra)
            add("Resize", [draw(2, 2, 4, 6), None, None, ints(2, 2, 7, 3)], opset=19, fixed=(3,), mode=mode,
                coordinate_transformation_mode=transform)
    for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for transform in ("half_pixel", "asymmetric"):
            add("Resize", [draw(1, 1, 5, 7), None, np.array([1, 1, 2, 2.5], F32)], opset=13, fixed=(2,),
                mode="nearest", nearest_mode=nearest, coordinate_transformation_mode=transform)
    add("Resize", [draw(1, 1, 5, 7), None, np.array([1, 1, 2, 2], F32)], opset=13, fixed=(2,), mode="cubic",
        exclude_outside=1, cubic_coeff_a=-0.5)
    add("Resize", [draw(1, 2, 5, 7), None, None, ints(8, 9)], opset=19, fixed=(3,), mode="linear", axes=[2, 3])
    for policy in ("not_larger", "not_smaller"):
        add("Resize", [draw(1, 2, 5, 7), None, None, ints(10, 10)], opset=19, fixed=(3,), mode="nearest",
            axes=[2, 3], keep_aspect_ratio_policy=policy)
    add("Resize", [draw(1, 2, 5, 7, dtype=F16), None, np.array([1, 1, 2, 2], F32)], opset=13, fixed=(2,),
        mode="linear")
    add("DepthToSpace", [draw(2, 8, 3, 2)], blocksize=2, mode="DCR")
    add("DepthToSpace", [draw(2, 8, 3, 2, dtype=F16)], blocksize=2, mode="CRD")
    add("SpaceToDepth", [draw(2, 2, 6, 4)], blocksize=2)


def normalization():
    for dtype in (F32, F16):
        c = [draw(3, dtype=dtype, seed=i, low=0.5, high=1.5) for i in range(4)]
        for shape in ((2, 3, 4, 5), (2, 3), (2, 3, 7)):
            add("BatchNormalization", [draw(*shape, dtype=dtype), *c], opset=15, epsilon=1e-3)
        add("InstanceNormalization", [draw(2, 3, 4, 5, dtype=dtype), *c[:2]], epsilon=1e-3)
        add("InstanceNormalization", [draw(2, 3, 9, dtype=dtype), *c[:2]], opset=22)
        six = [draw(6, dtype=dtype, seed=i) for i in range(2)]
        add("GroupNormalization", [draw(2, 6, 4, 5, dtype=dtype), *six], opset=21, num_groups=3)
        for axis, shape in ((-1, (8,)), (1, (5, 8)), (2, (8,))):
            parameters = [draw(*shape, dtype=dtype, seed=i) for i in range(2)]
            add("LayerNormalization", [draw(3, 5, 8, dtype=dtype), *parameters], axis=axis)
            add("LayerNormalization", [draw(3, 5, 8, dtype=dtype), parameters[0]], axis=axis, epsilon=1e-2)
            add("RMSNormalization", [draw(3, 5, 8, dtype=dtype), parameters[0]], opset=23, axis=axis, reference=True)
    add("LayerNormalization", [draw(3, 5, 8), draw(8), draw(8, seed=1)], outputs=3)
    for p, axis in itertools.product((1, 2), (0, 1, -1)):
        add("LpNormalization", [draw(3, 4, 5)], p=p, axis=axis)
    add("MeanVarianceNormalization", [draw(2, 3, 4, 5)])
    add("MeanVarianceNormalization", [draw(2, 3, 4)], axes=[0, 2])
    for op in ("Softmax", "LogSoftmax"):
        for axis in (0, 1, 2, -1):
            add(op, [draw(3, 4, 5)], axis=axis)
            add(op, [draw(3, 4, 5)], opset=11, axis=axis)
        add(op, [draw(3, 4, 5)], opset=11)
        add(op, [draw(3, 4, 40, dtype=F16)])
        add(op, [draw(3, 4, 40) * 100])


def reduction():
    for op in ("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
               "ReduceSum ReduceSumSquare").split():
        x = draw(3, 4, 5, low=0.1, high=2)
        for keep in (0, 1):
            for axes in ([0], [1, 2], [-1], None):
                old = {} if axes is None else {"axes": axes}
                if op == "ReduceSum":
                    add(op, [x] if axes is None else [x, ints(*axes)], opset=13, fixed=(1,), keepdims=keep)
                else:
                    add(op, [x], opset=13, keepdims=keep, **old)
                    add(op, [x] if axes is None else [x, ints(*axes)], opset=18, fixed=(1,), keepdims=keep)
        add(op, [x], opset=18, noop_with_empty_axes=1)
        add(op, [x.astype(F16), ints(1)], opset=18, fixed=(1,))
    for op in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"):
        for dtype in (I32, I64):
            add(op, [draw(3, 4, dtype=dtype), ints(0)], opset=18, fixed=(1,))
    add("ReduceMax", [draw(3, 4, dtype=bool), ints(1)], opset=20, fixed=(1,), reference=True)
    add("ReduceSum", [draw(3, 4)], opset=11, axes=[1])
    ties = np.array([[1, 3, 3, 2], [5, 5, 1, 1]], F32)
    for op in ("ArgMax", "ArgMin"):
        for axis, keep, last in itertools.product((0, 1, -1), (0, 1), (0, 1)):
            add(op, [ties], axis=axis, keepdims=keep, select_last_index=last)
        add(op, [draw(3, 4, 5, dtype=I32)], axis=1)
        add(op, [draw(3, 4, 5, dtype=F16)], axis=2)
    for axis, largest in itertools.product((0, 1, -1), (0, 1)):
        add("TopK", [draw(4, 6, 5), ints(3)], fixed=(1,), outputs=2, axis=axis, largest=largest)
    add("TopK", [ties, ints(3)], fixed=(1,), outputs=2)
    add("TopK", [draw(4, 6, dtype=I64), ints(2)], fixed=(1,), outputs=2)
    add("TopK", [draw(4, 6, dtype=F16), ints(6)], fixed=(1,), outputs=2)
    for exclusive, reverse, axis in itertools.product((0, 1), (0, 1), (0, -1)):
        add("CumSum", [draw(3, 4, 2), np.array(axis, I64)], fixed=(1,), exclusive=exclusive, reverse=reverse)
    add("CumSum", [draw(3, 4, dtype=I64), np.array(1, I64)], fixed=(1,))


def indexing():
    for dtype in (F32, F16, I64, np.uint8, bool):
        add("Gather", [draw(5, 4, dtype=dtype), np.array([[0, 4], [-1, 2]], I64)])
    add("Gather", [draw(5, 4, 3), np.array([1, -2], I32)], axis=1)
    add("Gather", [draw(5, 4, 3), np.array(2, I64)], axis=-1)
    add("GatherElements", [draw(3, 4), np.array([[0, -1], [3, 2]], I64)], axis=1)
    add("GatherElements", [draw(3, 4, dtype=I64), np.array([[0, 2, 1, 1]], I32)], axis=0)
    add("GatherND", [draw(3, 4, 5), np.array([[0, 1], [2, -1]], I64)])
    add("GatherND", [draw(2, 4, 5), np.array([[[1], [0]], [[3], [2]]], I64)], batch_dims=1)
    add("GatherND", [draw(3, 4), np.array([[[2, 1]]], I64)])
    index = np.array([[1, 0, 2, 0], [0, 2, 1, -1]], I64)
    for reduction in ("none", "add", "mul", "max", "min"):
        unique = np.array([[1, 0, 2, 0], [0, 2, 1, -1]], I64)
        add("ScatterElements", [draw(3, 4), unique, draw(2, 4, seed=1)], opset=18, axis=0, reduction=reduction)
        add("ScatterND", [draw(4, 3), np.array([[1], [3]], I64), draw(2, 3, seed=1)], opset=18, reduction=reduction)
    add("ScatterElements", [draw(3, 4), index, draw(2, 4, seed=1)], opset=13, axis=0)
    add("ScatterElements", [draw(2, 6, dtype=F16), np.array([[5, 0], [1, -2]], I64), draw(2, 2, dtype=F16)], axis=1,
        opset=16, reduction="add", reference=True)
    add("ScatterND", [draw(4, 3, dtype=I64), np.array([[[1, 2]], [[0, 0]]], I64), draw(2, 1, dtype=I64)], opset=13)
    for axis in (-1, 0, 1):
        add("OneHot", [np.array([[0, 2], [-1, 7]], I64), np.array(4, I64), np.array([0, 5], F32)], fixed=(1,),
            axis=axis)
    add("OneHot", [np.array([1, 3], I64), np.array([4], I64), np.array([2, 9], I64)], fixed=(1,))
    add("OneHot", [np.array([1, 3], F32), np.array(4, F32), np.array([2, 9], F32)], fixed=(1,))
    for upper, k in itertools.product((0, 1), (-5, -1, 0, 2, 5)):
        add("Trilu", [draw(2, 3, 4), np.array(k, I64)], fixed=(1,), upper=upper)
    add("Trilu", [draw(3, 3, dtype=bool)], upper=0)
    add("Trilu", [draw(3, 3, dtype=I64)])


def shapes():
    add("Reshape", [draw(2, 3, 4), ints(0, -1)], fixed=(1,))
    add("Reshape", [draw(2, 3, 4, dtype=F16), ints(4, 6)], fixed=(1,))
    add("Reshape", [draw(0, 3), ints(3, 0)], opset=14, fixed=(1,), allowzero=1)
    for axis in (0, 1, 2, -1, 3):
        add("Flatten", [draw(2, 3, 4)], axis=axis)
    add("Squeeze", [draw(1, 3, 1), ints(0, -1)], fixed=(1,))
    add("Squeeze", [draw(1, 3, 1)])
    add("Squeeze", [draw(1, 3, 1)], opset=11, axes=[2])
    add("Unsqueeze", [draw(3, 4), ints(0, -1)], fixed=(1,))
    add("Unsqueeze", [draw(3, 4)], opset=11, axes=[1, 3])
    for perm in ([2, 0, 1], [0, 2, 1], None):
        add("Transpose", [draw(2, 3, 4)], **({"perm": perm} if perm else {}))
    add("Transpose", [draw(2, 3, dtype=bool)], perm=[1, 0])
    for axis in (0, 1, -1):
        add("Concat", [draw(2, 3, seed=1), draw(2, 3, seed=2), draw(2, 3, seed=3)], axis=axis)
    add("Concat", [draw(2, 3, dtype=I64), draw(2, 1, dtype=I64)], axis=1)
    add("Split", [draw(6, 4), ints(1, 2, 3)], fixed=(1,), outputs=3)
    add("Split", [draw(6, 4)], outputs=2, axis=1, opset=13)
    add("Split", [draw(7, 4)], outputs=3, num_outputs=3, opset=18)
    add("Split", [draw(6, 4)], outputs=2, split=[2, 4], opset=11)
    for starts, ends, axes, steps in (((1,), (3,), (0,), None), ((0, -3), (100, -1), (0, 1), None),
                                      ((-1,), (-100,), (1,), (-1,)), ((5,), (0,), (0,), (-2,)),
                                      ((0,), (6,), (0,), (4,)), ((3,), (1,), (0,), None),
                                      ((0,), (2 ** 63 - 1,), (1,), (2,)), ((100,), (-2 ** 63,), (1,), (-3,))):
        fixed = [ints(*starts), ints(*ends), ints(*axes)] + ([ints(*steps)] if steps else [])
        add("Slice", [draw(6, 5), *fixed], fixed=(1, 2, 3, 4))
    add("Slice", [draw(6, 5, dtype=np.uint8), ints(1, 2), ints(4, 4)], fixed=(1, 2))
    add("Expand", [draw(3, 1), ints(2, 1, 4)], fixed=(1,))
    add("Expand", [draw(3, 4), ints(1)], fixed=(1,))
    add("Expand", [draw(1, dtype=bool), ints(2, 3)], fixed=(1,))
    add("Tile", [draw(2, 3), ints(2, 3)], fixed=(1,))
    add("Tile", [draw(2, 3, dtype=I64), ints(1, 0)], fixed=(1,))
    for mode in ("constant", "edge", "reflect", "wrap"):
        opset = 19 if mode == "wrap" else 13
        add("Pad", [draw(4, 5), ints(1, 2, 3, 0)], opset=opset, fixed=(1,), mode=mode)
        add("Pad", [draw(4, 5), ints(-1, 0, 1, -2)], opset=opset, fixed=(1,), mode=mode)
    add("Pad", [draw(4, 5), ints(1, 2, 3, 0), np.array(7.5, F32)], fixed=(1, 2))
    add("Pad", [draw(4, 5, dtype=I64), ints(1, 2, 3, 0), np.array(7, I64)], fixed=(1, 2))
    add("Pad", [draw(4, 5, dtype=F16), ints(2, 1), np.array(1.5, F16), ints(1)], opset=18, fixed=(1, 2, 3))
    add("EyeLike", [draw(3, 4)], k=1)
    add("EyeLike", [draw(3, 4)], dtype=7, k=-1)
    add("ConstantOfShape", [ints(2, 3)], fixed=(0,))
    add("ConstantOfShape", [ints(2, 3)], fixed=(0,), value=numpy_helper.from_array(np.array([7], I64)))
    add("ConstantOfShape", [ints(4)], fixed=(0,), value=numpy_helper.from_array(np.array([True])))
    for dtype in (F32, I64, I32):
        add("Range", [np.array(v, dtype) for v in (2, 11, 3)], fixed=(0, 1, 2))
        add("Range", [np.array(v, dtype) for v in (5, -2, -2)], fixed=(0, 1, 2))


def quantized_weights():
    """What expands to weights: both signs, by tensor, axis and block (a last one that is short too), with zero points and
    without, in each type of activations; every difference from a zero point, which needs nine bits."""
    types = {np.int8: (-128, 128), np.uint8: (0, 256), ml_dtypes.int4: (-8, 8), ml_dtypes.uint4: (0, 16)}
    for (stored, (low, high)), scale in itertools.product(types.items(), (F32, F16, ml_dtypes.bfloat16)):
        q = draw(6, 5, 7, dtype=I32, low=low, high=high)
        q.ravel()[:2] = low, high - 1
        for shape, attributes in (((), {}), ((5,), {"axis": 1}), ((7,), {"axis": -1}),
                                  ((2, 5, 7), {"axis": 0, "block_size": 3}), ((6, 3, 7), {"axis": 1, "block_size": 2}),
                                  ((6, 5, 2), {"axis": 2, "block_size": 4}), ((6, 5, 1), {"axis": -1, "block_size": 9})):
            s = draw(*shape, low=0.1, high=1).astype(scale)
            z = draw(*shape, dtype=I32, low=low, high=high)
            z = np.where(np.arange(z.size).reshape(z.shape) % 3 == 0, low, z).astype(stored)
            for more in ([], [z]):
                add("DequantizeLinear", [q.astype(stored), s, *more], opset=21, reference=scale == ml_dtypes.bfloat16,
                    fixed=(0, 1, 2) if scale == ml_dtypes.bfloat16 else (), tolerance=1e-6, **attributes)
    for stored, scale in itertools.product((np.int16, np.uint16, I32), (F32, F16)):
        q = draw(3, 4, dtype=I32, low=0, high=30000).astype(stored)
        more = [] if stored == I32 else [draw(4, dtype=I32, low=0, high=30000).astype(stored)]
        s = draw(4, low=0.01, high=0.02).astype(scale)
        for zero in ([], more)[:1 + bool(more)]:
            add("DequantizeLinear", [q, s, *zero], opset=21, axis=1, tolerance=1e-6)
    for scale, out in itertools.product((F32, F16), (1, 10, 16)):
        for stored in (np.int8, ml_dtypes.uint4):
            q, z = (draw(*shape, dtype=I32, low=0, high=8).astype(stored) for shape in ((3, 4), (3, 2)))
            add("DequantizeLinear", [q, draw(3, 2, low=0.1, high=1).astype(scale), z], opset=23, axis=1, block_size=2,
                output_dtype=out, reference=True, tolerance=1e-6)


def quantized():
    for dtype in (np.int8, np.uint8, np.int32):
        q = draw(4, 6, dtype=dtype)
        add("DequantizeLinear", [q, np.array(0.1, F32)])
        if dtype != np.int32:
            add("DequantizeLinear", [q, np.array(0.1, F32), np.array(3, dtype)])
            for axis in (0, 1, -1):
                n = q.shape[axis]
                add("DequantizeLinear", [q, draw(n, low=0.1, high=1), draw(n, dtype=dtype)], axis=axis)
            add("DequantizeLinear", [q, draw(4, low=0.1, high=1).astype(F16)], opset=19, axis=0)
            add("DequantizeLinear", [q, draw(4, 2, low=0.1, high=1), draw(4, 2, dtype=dtype)], opset=21, axis=1,
                block_size=3)
    for dtype in (ml_dtypes.int4, ml_dtypes.uint4):
        low = -8 if dtype == ml_dtypes.int4 else 0
        for shape in ((4, 6, 5), (3, 3, 3)):
            q = draw(*shape, dtype=I32, low=low, high=low + 16).astype(dtype)
            add("DequantizeLinear", [q, np.array(0.1, F32)], opset=21)
            add("DequantizeLinear", [q, draw(shape[1], low=0.1, high=1),
                                     draw(shape[1], dtype=I32, low=0, high=7).astype(dtype)], opset=21, axis=1)
        q = draw(4, 6, 5, dtype=I32, low=low, high=low + 16).astype(dtype)
        for axis, block in ((0, 2), (1, 3), (-1, 5), (2, 5)):
            shape = [d // block if i == axis % 3 else d for i, d in enumerate(q.shape)]
            add("DequantizeLinear", [q, draw(*shape, low=0.1, high=1),
                                     draw(*shape, dtype=I32, low=0, high=7).astype(dtype)], opset=21, axis=axis,
                block_size=block)
            add("DequantizeLinear", [q, draw(*shape, low=0.1, high=1).astype(F16)], opset=21, axis=axis,
                block_size=block)
    quantized_weights()
    x = np.array([[-1000, -3.25, -0.25, 0.25], [0.75, 1.25, 63, 1000]], F32)
    for dtype in (np.int8, np.uint8):
        add("QuantizeLinear", [x, np.array(0.5, F32), np.array(1, dtype)])
        add("QuantizeLinear", [x, np.array([0.5, 2], F32), np.array([1, 3], dtype)], axis=0)
    add("QuantizeLinear", [x, np.array(0.5, F32)])
    add("QuantizeLinear", [x, np.array(0.5, F32)], opset=21, output_dtype=3)
    add("QuantizeLinear", [x, np.array([[0.5, 1], [2, 3]], F32), np.array([[1, 2], [3, 4]], np.int8)], opset=21,
        axis=1, block_size=2)
    add("QuantizeLinear", [x, np.array(0.5, F32), np.array(1, ml_dtypes.int4)], opset=21, reference=True)


for build in (elementwise, casts, broadcasting, products, attention, convolution, pooling, resize, normalization,
              reduction, indexing, shapes, quantized, in_bfloat16):
    build()
