"""Each kernel against ONNX Runtime, over the attributes of its operator.

Every case of kernel_cases.py runs through the kernel alone (dry run, then two
real runs at different places that must give the same bytes, once in place where
the operator's row allows it), its scratch is within what the row plans, and its
outputs are those of ONNX Runtime, or of ONNX's reference implementation where
ONNX Runtime has no kernel for the version. A case that neither can judge fails."""
import ctypes
import itertools
import json
import sys
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(Path(__file__).parent))
import kernel_cases  # noqa: E402
import toolkit  # noqa: E402

PACKED = (TensorProto.INT4, TensorProto.UINT4)


class Probe:
    """The kernels behind kernel-probe.so; with `device_forms` those that hold for any device, here on the CPU."""

    def __init__(self, device_forms=False, cuda=False):
        self.where = {"device_forms": device_forms, "cuda": cuda}
        path = toolkit.BUILD / "lib" / "kernel-probe.so"
        if not path.exists():
            raise RuntimeError("no %s: build the target kernel-probe" % path)
        self.library = ctypes.CDLL(str(path))
        self.library.offloadProbeKernel.restype = ctypes.c_char_p
        self.library.offloadSetThreads(2)

    def run(self, node, opset, inputs, outputs, inplace=True, launch=()):
        """(arrays, figures); raises RuntimeError with the kernel's error. Operands of the row that are known before a
        step are given so, and those of `launch`."""
        kept = [None if x is None else packed(x) for x in inputs]
        call = {**self.where, "domain": node.domain, "op": node.op_type, "opset": opset, "outputs": outputs, "inplace": inplace,
                "attributes": {a.name: attribute(a) for a in node.attribute},
                "operands": [None if x is None else operand(x, y) for x, y in zip(inputs, kept)]}
        for index in launch:
            call["operands"][index]["launch"] = True
        answer = json.loads(self.library.offloadProbeKernel(json.dumps(call).encode()))
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return [array(o) for o in answer["outputs"]], answer


def packed(x):
    """The array as its raw bytes lie in a tensor, strides kept otherwise."""
    if kernel_cases.element_type(x) in PACKED:
        return np.frombuffer(numpy_helper.from_array(x).raw_data, np.uint8)
    return x


def operand(x, bytes_of):
    base = bytes_of
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    contiguous = kernel_cases.element_type(x) in PACKED
    strides = []
    for i in range(x.ndim):
        strides.append(int(np.prod(x.shape[i + 1:])) if contiguous or x.size == 0 else x.strides[i] // x.itemsize)
    span = bytes_of.nbytes if contiguous or x.size == 0 else (
        sum((d - 1) * s for d, s in zip(x.shape, x.strides)) + x.itemsize)
    return {"type": kernel_cases.element_type(x), "dims": list(x.shape), "strides": strides,
            "address": bytes_of.ctypes.data, "bytes": span}


def attribute(a):
    if a.type == AttributeProto.INT:
        return {"i": a.i}
    if a.type == AttributeProto.FLOAT:
        return {"f": a.f}
    if a.type == AttributeProto.STRING:
        return {"s": a.s.decode()}
    if a.type == AttributeProto.INTS:
        return {"ints": list(a.ints)}
    if a.type == AttributeProto.FLOATS:
        return {"floats": list(a.floats)}
    raw = numpy_helper.to_array(a.t).tobytes()
    return {"type": a.t.data_type, "dims": list(a.t.dims), "bytes": raw.hex()}


def array(output):
    raw = ctypes.string_at(output["address"], output["bytes"]) if output["bytes"] else b""
    if output["type"] in PACKED:
        tensor = helper.make_tensor("t", output["type"], output["dims"], raw, raw=True)
        return numpy_helper.to_array(tensor)
    dtype = helper.tensor_dtype_to_np_dtype(output["type"])
    return np.frombuffer(raw, dtype).reshape(output["dims"]).copy()


def expected(case):
    if case.widened:
        return [v.astype(kernel_cases.BF16) if v.dtype == np.float32 else v
                for v in map(np.asarray, expected(case.in_float()))]
    model = case.model()
    names = [o.name for o in model.graph.output]
    if case.reference:
        return ReferenceEvaluator(model).run(names, case.feeds())
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(names, case.feeds())


def table_rows():
    """ONNX's operators of docs/operators.md, with their versions."""
    rows = {}
    for line in (Path(__file__).parents[2] / "docs" / "operators.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and cells[2] and cells[2][0].isdigit() and not cells[1].startswith("offload."):
            rows[cells[1]] = [int(v) for v in cells[2].split()]
    return rows


class ProductsWithBias:
    """offload.Linear and the index that a Gather knows before the step, for both forms."""

    def test_linear(self):
        node = helper.make_node("Linear", ["x", "w", "b"], ["y"], domain="offload")
        r = np.random.RandomState(5)
        for shape, columns in (((2, 3, 4), 5), ((3, 4), 5), ((4,), 5), ((2, 0, 4), 5), ((2, 3, 0), 5), ((1, 4), 1),
                               ((2, 2, 3, 8), 9)):
            for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-12), (np.float16, 2e-3),
                                     (kernel_cases.BF16, 2e-2)):
                x, w, b = (r.standard_normal(s).astype(dtype) for s in (shape, (shape[-1], columns), (columns,)))
                want = x.astype(np.float64) @ w.astype(np.float64) + b.astype(np.float64)
                # Turned operands, and an operand with gaps between its rows.
                turned = (x.T.copy().T, w.T.copy().T, b)
                gaps = (np.repeat(x[..., None, :], 2, axis=-2)[..., 0, :], w, b)
                for case, call in (("plain", (x, w, b)), ("turned", turned), ("gaps", gaps)):
                    with self.subTest(shape=shape, dtype=dtype, case=case):
                        got, figures = self.probe.run(node, 1, list(call), 1)
                        self.assertEqual(got[0].dtype, x.dtype)
                        self.assertEqual(got[0].shape, want.shape)
                        self.assertLessEqual(toolkit.relative_error(got[0].astype(np.float64), want), tolerance)
                        self.assertLessEqual(figures["scratch"], figures["planned_scratch"])

    def test_linear_rounds_once(self):
        """In 16 bits the sum of product and bias is what is rounded."""
        node = helper.make_node("Linear", ["x", "w", "b"], ["y"], domain="offload")
        x, w = np.array([[2048, 1]], np.float16), np.array([[1], [1]], np.float16)
        got, _ = self.probe.run(node, 1, [x, w, np.array([1], np.float16)], 1)
        self.assertEqual(float(got[0][0, 0]), 2050)   # 2049 alone would become 2048

    def test_gather_of_a_known_index(self):
        r = np.random.RandomState(6)
        x = r.standard_normal((3, 4, 5)).astype(np.float32)
        for axis, index, itype in itertools.product((0, 1, 2, -1), (0, 2, -1), (np.int64, np.int32)):
            for given in (np.array(index, itype), np.array([index], itype), np.array([[index]], itype)):
                node = helper.make_node("Gather", ["x", "i"], ["y"], axis=axis)
                got, figures = self.probe.run(node, 17, [x, given], 1, launch=(1,))
                np.testing.assert_array_equal(got[0], np.take(x, given, axis=axis))
                self.assertEqual(figures["scratch"], 0)
        for bad in (3, -4):
            node = helper.make_node("Gather", ["x", "i"], ["y"], axis=0)
            with self.assertRaisesRegex(RuntimeError, "index %d is out of range for an axis of size 3" % bad):
                self.probe.run(node, 17, [x, np.array(bad)], 1, launch=(1,))


class Kernels(ProductsWithBias, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.probe = Probe()

    def check(self, case, inputs):
        node = case.model().graph.node[0]
        got, figures = self.probe.run(node, case.opset, inputs, case.outputs)
        self.assertLessEqual(figures["scratch"], figures["planned_scratch"], "scratch")
        want = expected(case)
        for i, (a, b) in enumerate(zip(got, want)):
            b = np.asarray(b)
            self.assertEqual(a.dtype, b.dtype, "output %d" % i)
            if a.dtype.itemsize == 1 and a.dtype.kind == "V":
                a, b = a.astype(np.int32), b.astype(np.int32)
            error = toolkit.relative_error(a, b)
            self.assertLessEqual(error, case.tolerance, "output %d: %s against %s" % (i, a, b))

    def test_every_row_has_a_case(self):
        judged = {case.op for case in kernel_cases.CASES}
        launch_only = {"Constant", "Shape", "Size"}  # OffFormat/ShapeArithmetic evaluates these
        self.assertEqual(set(table_rows()) - judged, launch_only)

    def test_versions_are_those_of_the_schemas(self):
        """A row lists the version in force at opset 11 (or the first) and all later ones up to 28."""
        rows = table_rows()
        self.assertGreater(len(rows), 100)
        history = {}
        for schema in onnx.defs.get_all_schemas_with_history():
            if schema.domain == "" and schema.since_version <= 28 and not schema.deprecated:
                history.setdefault(schema.name, set()).add(schema.since_version)
        for name, versions in rows.items():
            old = [v for v in history[name] if v <= 11]
            want = ([max(old)] if old else []) + sorted(v for v in history[name] if v > 11)
            self.assertEqual(versions, want, name)

    def test_operands_through_strides(self):
        """Rows that take strides give the same values from a transposed operand."""
        for op, inputs, attributes in (
                ("Add", 2, {}), ("Where", 3, {}), ("MatMul", 2, {}), ("Gemm", 2, {"transB": 1}), ("Exp", 1, {}),
                ("Concat", 2, {"axis": 0}), ("ReduceSumSquare", 1, {}), ("Transpose", 1, {"perm": [1, 0]}),
                ("Cast", 1, {"to": 7}), ("RotaryEmbedding", 3, {"num_heads": 2}), ("Attention", 3, {})):
            with self.subTest(op):
                shape = {"RotaryEmbedding": (2, 3, 8), "Attention": (2, 3, 4, 8)}.get(op, (6, 6))
                x = [np.random.RandomState(i).standard_normal(shape).astype(np.float32) for i in range(inputs)]
                if op == "Where":
                    x[0] = x[0] > 0
                if op == "RotaryEmbedding":
                    x[1:] = [v[..., :2] for v in x[1:]]
                node = helper.make_node(op, ["x"] * inputs, ["y"], **attributes)
                opset = 23 if len(shape) > 2 else 17
                straight, _ = self.probe.run(node, opset, [v.copy() for v in x], 1)
                turned, figures = self.probe.run(node, opset, [np.asfortranarray(v) for v in x], 1)
                self.assertLessEqual(toolkit.relative_error(turned[0], straight[0]), 1e-6)
                self.assertLessEqual(figures["scratch"], figures["planned_scratch"])

    def test_matrices_that_blas_cannot_read(self):
        r = np.random.RandomState(0)
        a = r.standard_normal((3, 5, 4, 2)).astype(np.float32)[..., 0]
        b = r.standard_normal((3, 4, 6, 2)).astype(np.float32)[..., 0]
        node = helper.make_node("MatMul", ["a", "b"], ["y"])
        got, figures = self.probe.run(node, 17, [a, b], 1)
        self.assertEqual(figures["scratch"], 0)
        self.assertLessEqual(toolkit.relative_error(got[0], a @ b), 1e-5)

    def test_ids_out_of_range(self):
        for op in ("Gather", "GatherElements"):
            for bad in (5, -6):
                node = helper.make_node(op, ["x", "i"], ["y"], axis=0)
                x, ids = np.zeros((5, 2), np.float32), np.array([[0, bad]], np.int64)
                with self.assertRaisesRegex(RuntimeError, "index %d at position 1 is out of range for 5" % bad):
                    self.probe.run(node, 17, [x, ids], 1)

    def test_wide_unsigned_integers_move(self):
        for dtype in (np.uint16, np.uint32, np.uint64):
            x = np.array([[0, 1], [np.iinfo(dtype).max, 7]], dtype)
            node = helper.make_node("Transpose", ["x"], ["y"])
            got, _ = self.probe.run(node, 17, [x], 1)
            self.assertEqual(got[0].dtype, dtype)
            np.testing.assert_array_equal(got[0], x.T)

    def test_updates_round_every_operation(self):
        """Bit for bit, three steps, by numpy in the order of the functions' bodies."""
        r = np.random.RandomState(3)
        f = np.float32
        w, m, v = (r.standard_normal(1000).astype(f) for _ in range(3))
        v = np.abs(v)
        lr, beta1, beta2, epsilon, decay = f(1e-2), f(0.9), f(0.999), f(1e-8), f(0.1)
        adam = helper.make_node("AdamW", ["x"] * 11, ["y"] * 3, domain="offload")
        sgd = helper.make_node("SGD", ["x"] * 4, ["y"], domain="offload")
        for step in (1, 2, 3):
            g = r.standard_normal(1000).astype(f)
            bias1, bias2 = (f(1.0 - np.float64(b) ** step) for b in (beta1, beta2))
            m_next = beta1 * m + (f(1) - beta1) * g
            v_next = beta2 * v + (f(1) - beta2) * g * g
            change = (lr / bias1) * (m_next / (np.sqrt(v_next) / np.sqrt(bias2) + epsilon))
            w_next = w * (f(1) - lr * decay) - change
            scalars = [np.array(x) for x in (lr, beta1, beta2, epsilon, decay)]
            for apply in (False, True):
                call = [w, g, m, v, *scalars, np.array(step, np.int64), np.array(apply)]
                got, _ = self.probe.run(adam, 1, call, 3)
                for a, b in zip(got, (w_next, m_next, v_next) if apply else (w, m, v)):
                    self.assertEqual(a.tobytes(), b.tobytes())
                got, _ = self.probe.run(sgd, 1, [w, g, np.array(lr), np.array(apply)], 1)
                self.assertEqual(got[0].tobytes(), (w - lr * g if apply else w).tobytes())
            w, m, v = w_next, m_next, v_next

    def test_scratch_of_large_operands(self):
        """Enough elements that ATen splits the work over threads."""
        r = np.random.RandomState(0)
        for dtype in (np.float32, np.float16):
            x = r.rand(16, 32, 256).astype(dtype) + dtype(0.5)
            calls = [(op, [x, np.array(axes)], {"keepdims": 0})
                     for op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                                "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
                     for axes in ([0], [1], [2], [0, 2], [0, 1, 2])]
            calls += [(op, [x], {"axis": axis}) for op in ("Softmax", "LogSoftmax", "LpNormalization")
                      for axis in (0, 1, 2)]
            calls += [(op, [x], {}) for op in ("Softsign", "HardSigmoid", "IsInf", "Gelu", "Mish",
                                               "GlobalAveragePool", "GlobalMaxPool")]
            calls += [("MeanVarianceNormalization", [x], {"axes": axes}) for axes in ([0, 2], [1], [0, 1, 2])]
            calls += [("MatMul", [x, x[0].T.copy()], {}), ("Pow", [x, np.array(2, dtype)], {}),
                      ("Where", [x > 1, x, x], {}), ("Einsum", [x, x], {"equation": "bij,bkj->bik"}),
                      ("LayerNormalization", [x, x[0, 0].copy(), x[0, 1].copy()], {}), ("Mean", [x, x], {}),
                      ("Resize", [x[None], None, np.array([1, 1, 2, 2], np.float32)], {"mode": "cubic"}),
                      ("Resize", [x[None], None, np.array([1, 1, .5, .5], np.float32)], {"mode": "linear"})]
            for op, inputs, attributes in calls:
                with self.subTest(op=op, dtype=dtype, **attributes):
                    node = helper.make_node(op, ["x"] * len(inputs), ["y"], **attributes)
                    _, figures = self.probe.run(node, 20, inputs, 1)
                    self.assertLessEqual(figures["scratch"], figures["planned_scratch"])


class DeviceForms(ProductsWithBias, unittest.TestCase):
    """The same cases by the forms for devices, which are calls of ATen alone and so hold on the CPU too."""
    check = Kernels.check

    @classmethod
    def setUpClass(cls):
        cls.probe = Probe(device_forms=True)

    def test_ids_out_of_range(self):
        for op in ("Gather", "GatherElements"):
            for bad in (5, -6):
                node = helper.make_node(op, ["x", "i"], ["y"], axis=0)
                x, ids = np.zeros((5, 2), np.float32), np.array([[0, bad]], np.int64)
                with self.assertRaisesRegex(RuntimeError, "an index is out of range"):
                    self.probe.run(node, 17, [x, ids], 1)

    def test_attention_in_tiles(self):
        """Scores of more than a tile, by rows and by heads, against the host's kernel."""
        r = np.random.RandomState(0)
        host = Probe()
        for dtype, attributes, masked in ((np.float32, {"softcap": 4.0, "is_causal": 1}, False),
                                          (np.float16, {"softcap": 4.0}, True),
                                          (np.float32, {"left_window_size": 60, "right_window_size": 9}, False)):
            with self.subTest(dtype=dtype, **attributes):
                call = [r.standard_normal((2, heads, 700, 16)).astype(dtype) for heads in (8, 2, 2)]
                if masked:
                    call.append(r.rand(2, 8, 700, 700) > 0.3)
                node = helper.make_node("Attention", ["x"] * len(call), ["y"], **attributes)
                got, figures = self.probe.run(node, 25, call, 1)
                self.assertLessEqual(figures["scratch"], figures["planned_scratch"])
                want, _ = host.run(node, 25, call, 1)
                self.assertLessEqual(toolkit.relative_error(got[0], want[0]), 1e-5 if dtype == np.float32 else 2e-3)

    def test_updates(self):
        """Like the host's kernels but for the last bit: roots of ATen's CPU library are not rounded correctly, a card's
        are (script/gpu-test compares bits)."""
        r = np.random.RandomState(3)
        w, m, v, g = (np.abs(r.standard_normal(1000)).astype(np.float32) for _ in range(4))
        scalars = [np.array(x, np.float32) for x in (1e-2, 0.9, 0.999, 1e-8, 0.1)]
        adam = helper.make_node("AdamW", ["x"] * 11, ["y"] * 3, domain="offload")
        sgd = helper.make_node("SGD", ["x"] * 4, ["y"], domain="offload")
        for apply in (False, True):
            for node, call, outputs in (
                    (adam, [w, g, m, v, *scalars, np.array(2, np.int64), np.array(apply)], 3),
                    (sgd, [w, g, scalars[0], np.array(apply)], 1)):
                got, figures = self.probe.run(node, 1, call, outputs)
                self.assertLessEqual(figures["scratch"], figures["planned_scratch"])
                want, _ = Probe().run(node, 1, call, outputs)
                for a, b in zip(got, want):
                    self.assertLessEqual(toolkit.relative_error(a, b), 1e-7)


def case_test(case):
    return lambda self: self.check(case, case.inputs)


for _case in kernel_cases.CASES:
    setattr(Kernels, "test_" + _case.name, case_test(_case))
    setattr(DeviceForms, "test_" + _case.name, case_test(_case))

if __name__ == "__main__":
    unittest.main()
