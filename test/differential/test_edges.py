"""Small graphs at the edges of what models hold, against ONNX Runtime, at every
budget of the plan: transposed copies of real size, sizes of zero, constants that
are outputs. Sizes that no machine has. Files changed after they were compiled. And
what offload-run may not write over."""
import os
import stat
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
import toolkit  # noqa: E402

RANDOM = np.random.RandomState(3)


def weight(name, *shape, dtype=np.float32):
    return numpy_helper.from_array((RANDOM.standard_normal(shape) * 0.1).astype(dtype), name)


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs.split(), [output], name=operator.lower() + "_" + output, **attributes)


def model(nodes, outputs, constants=(), shape=(64, 60), dtype=TensorProto.FLOAT):
    graph = helper.make_graph(nodes, "edge", [helper.make_tensor_value_info("x", dtype, shape)],
                              [helper.make_tensor_value_info(name, dtype, None) for name in outputs], list(constants))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def int64(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


CASES = {
    "transpose_output": lambda: model([node("Transpose", "x", "y")], ["y"]),
    "transpose_output_half": lambda: model([node("Transpose", "x", "y")], ["y"], dtype=TensorProto.FLOAT16),
    "transpose_reshape": lambda: model([node("Transpose", "x", "t"), node("Reshape", "t s", "y")], ["y"], [int64("s", 32, -1)]),
    "transpose_twice": lambda: model([node("Transpose", "x", "t"), node("Unsqueeze", "t a", "u"), node("Transpose", "u", "y")],
                                     ["y"], [int64("a", 0)]),
    "concat_transposed": lambda: model([node("Transpose", "x", "t"), node("Concat", "t t", "y", axis=0)], ["y"]),
    "weight_behind_transpose_and_identity": lambda: model(
        [node("Transpose", "w", "t"), node("Identity", "t", "i"), node("MatMul", "x i", "y")], ["y"], [weight("w", 70, 60)]),
    "product_without_columns": lambda: model([node("MatMul", "x w", "y")], ["y"], [weight("w", 60, 0)]),
    "product_without_inner": lambda: model([node("Gemm", "x w b", "y", beta=0.5)], ["y"], [weight("w", 0, 8), weight("b", 8)],
                                           shape=(4, 0)),
    "constants_are_outputs": lambda: model(
        [node("MatMul", "x w0", "h"), node("MatMul", "h w1", "g"), node("MatMul", "g w2", "y")], ["y", "w0", "w2"],
        [weight("w0", 60, 64), weight("w1", 64, 64), weight("w2", 64, 64)]),
}


class Edges(unittest.TestCase):
    def judge(self, name):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            made = CASES[name]()
            onnx.save(made, folder / "m.onnx")
            kind = made.graph.input[0].type.tensor_type
            shape = [d.dim_value for d in kind.shape.dim]
            feeds = {"x": RANDOM.standard_normal(shape).astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))}
            right = toolkit.run_onnxruntime(folder / "m.onnx", feeds)
            plan, first = toolkit.plan(folder / "m.onnx"), None
            for row in plan["rows"]:
                toolkit.compile_model(folder / "m.onnx", folder / "m.off", "--device-memory=%d" % row["device_memory_bytes"])
                got = toolkit.run(folder / "m.off", feeds, "--poison").outputs
                for output in right:
                    self.assertLess(toolkit.relative_error(got[output], right[output]), 1e-5, output)
                first = first or got
                self.assertTrue(toolkit.same_bits(first, got))


for _name in CASES:
    def _test(self, name=_name):
        self.judge(name)
    setattr(Edges, "test_" + _name, _test)


class Outputs(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)
        onnx.save(CASES["weight_behind_transpose_and_identity"](), self.folder / "m.onnx")
        toolkit.compile_model(self.folder / "m.onnx", self.folder / "m.off")

    def test_neither_model_nor_weights_are_replaced(self):
        for name in ("m.off", "m.off.data", "m.onnx"):
            for flag in ("--output", "--output-state"):
                with self.subTest(name, flag=flag):
                    before = (self.folder / name).read_bytes()
                    _, err = toolkit.refused("offload-run", self.folder / "m.off", "--random-inputs", 1, flag, self.folder / name)
                    self.assertIn("would replace", err)
                    self.assertEqual((self.folder / name).read_bytes(), before)

    def test_an_older_output_is_replaced(self):
        for _ in range(2):
            toolkit.call("offload-run", self.folder / "m.off", "--random-inputs", 1, "--output", self.folder / "o.npz")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["m.off", "m.off.data", "m.onnx", "o.npz"])

    def test_a_pipe_is_written_to(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        read = []
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
        reader.start()
        toolkit.call("offload-run", self.folder / "m.off", "--random-inputs", 1, "--output", pipe)
        reader.join(timeout=30)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        self.assertEqual(read[0][:2], b"PK")


class HugeSizes(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.path = Path(self.scratch.name) / "m.onnx"
        # The shape of z needs no value of the product.
        onnx.save(model([node("MatMul", "x w", "y"), node("Concat", "y y", "z", axis=0)], ["z"], [weight("w", 60, 64)],
                        shape=("batch", 60)), self.path)

    def compile(self, batch, *flags):
        return toolkit.call("offload-opt", self.path, "-o", self.path.with_suffix(".off"), "--dim", "batch=%d" % batch, *flags)[1]

    def test_more_than_a_process_can_address(self):
        for batch, name in [(10 ** 12, "'x'"), (56 * 10 ** 10, "[matmul_y] result 'y'"), (3 * 10 ** 11, "[concat_z] result 'z'")]:
            for flags in ([], ["--target=host"], ["--device-memory=8GiB"]):
                with self.subTest(batch=batch, flags=flags):
                    code, err = toolkit.refused("offload-opt", self.path, "-o", self.path.with_suffix(".off"),
                                                "--dim", "batch=%d" % batch, *flags)
                    self.assertEqual((code, len(err.splitlines())), (1, 1), err)
                    self.assertIn(name + " has the shape [", err)
                    self.assertIn("a process can address no more than 140737488355328", err)
        for batch in (2 ** 58, 2 ** 62, 2 ** 63 - 1):
            _, err = toolkit.refused("offload-opt", self.path, "-o", self.path.with_suffix(".off"), "--dim", "batch=%d" % batch)
            self.assertIn("'x' has the shape [", err)
            self.assertIn("more than can be counted in bytes", err)
        self.assertFalse(self.path.with_suffix(".off").exists())

    def test_more_than_this_machine_has(self):
        self.assertIn("remark: inputs and outputs take 700.35 GiB of host memory", self.compile(10 ** 9))
        self.assertIn("remark: inputs, outputs and the arena take ", self.compile(10 ** 9, "--target=host"))
        self.assertNotIn("host memory", self.compile(1000))

    def test_the_predicted_time_of_a_huge_step_is_a_time(self):
        err = self.compile(10 ** 11)
        self.assertGreater(float(err.split("predicted step ")[1].split()[0]), 1000)


class Tampered(unittest.TestCase):
    """Both tools refuse a file whose order is right, but which is not what the compiler wrote."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)
        onnx.save(CASES["weight_behind_transpose_and_identity"](), self.folder / "m.onnx")
        toolkit.compile_model(self.folder / "m.onnx", self.folder / "m.off")
        self.right = onnx.load(str(self.folder / "m.off"), load_external_data=False)
        self.feeds = {"x": RANDOM.standard_normal((64, 60)).astype(np.float32)}
        toolkit.run(self.folder / "m.off", self.feeds)  # as it is

    def refused(self, tamper, *parts):
        made = onnx.ModelProto()
        made.CopyFrom(self.right)
        tamper(made)
        (self.folder / "t.off").write_bytes(made.SerializeToString())
        for call in (["offload-run", self.folder / "t.off", "--random-inputs", 1],
                     ["offload-opt", self.folder / "t.off", "-o", self.folder / "out.off"],
                     ["offload-opt", self.folder / "t.off", "--verify-only"]):
            with self.subTest(tool=call[0], flag=call[2]):
                code, err = toolkit.refused(*call)
                self.assertEqual((code, len(err.splitlines())), (1, 1), err)
                for part in parts:
                    self.assertIn(part, err)
        self.assertFalse((self.folder / "out.off").exists())

    @staticmethod
    def function(made, name):
        return next(f for f in made.functions if f.name == name and not f.overload)

    def test_version_of_the_domain(self):
        def tamper(made):
            next(o for o in made.opset_import if o.domain == "offload").version = 7
        self.refused(tamper, "'offload' at version 7")

    def test_bodies(self):
        def other_operator(made):
            self.function(made, "Wait").node[0].op_type = "Neg"
        self.refused(other_operator, "'offload.Wait'", "other numbers")

        def other_constant(made):
            self.function(made, "Release").node[0].attribute[0].t.int32_data[0] = 0
        self.refused(other_constant, "'offload.Release'", "other numbers")

        def other_opset(made):
            self.function(made, "Wait").opset_import[0].version = 13
        self.refused(other_opset, "'offload.Wait'")

        def standard(made):
            mine = made.functions.add()
            mine.CopyFrom(self.function(made, "Wait"))
            mine.domain, mine.name = "", "MatMul"
        self.refused(standard, "MatMul'")

    def test_functions_that_are_gone_or_twice(self):
        self.refused(lambda made: made.functions.remove(self.function(made, "Release")), "no function", "offload.Release")
        self.refused(lambda made: made.functions.add().CopyFrom(self.function(made, "Wait")), "'offload.Wait'", "twice")

    def test_what_has_no_meaning_may_change(self):
        made = onnx.ModelProto()
        made.CopyFrom(self.right)
        for function in made.functions:
            function.doc_string = "seen"
            for n in function.node:
                n.name = "renamed_" + n.output[0]
        (self.folder / "t.off").write_bytes(made.SerializeToString())
        toolkit.run(self.folder / "t.off", self.feeds)
        toolkit.call("offload-opt", self.folder / "t.off", "--verify-only")

    def test_properties(self):
        for change in (-512, 512, 10 ** 9):
            def tamper(made):
                peak = next(p for p in made.metadata_props if p.key == "offload.peak_bytes")
                peak.value = str(int(peak.value) + change)
            self.refused(tamper, "offload.peak_bytes")
        self.refused(lambda made: made.metadata_props.add(key="offload.target", value="host"), "'offload.target' is there twice")

    def test_declared_types(self):
        def dims(made):
            made.graph.value_info[0].type.tensor_type.shape.dim[0].dim_value += 1
        self.refused(dims, "declare")

        def kind(made):
            made.graph.value_info[0].type.tensor_type.elem_type = TensorProto.FLOAT16
        self.refused(kind, "declare")

        def output(made):
            made.graph.output[0].type.tensor_type.shape.dim[0].dim_value += 1
        self.refused(output, "declare", "'y'")


if __name__ == "__main__":
    unittest.main()
