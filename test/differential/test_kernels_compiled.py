"""The cases of kernel_cases.py through both tools.

All cases of one opset are one model: offload-opt compiles it (so every node is
imported, typed, planned and given scratch), offload-run runs it, and each output
is that of ONNX Runtime or of ONNX's reference implementation."""
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

sys.path.insert(0, str(Path(__file__).parent))
import kernel_cases  # noqa: E402
import toolkit  # noqa: E402
from test_kernels import expected  # noqa: E402


def renamed(case, prefix):
    """The case's node, inputs and initializers under names of their own."""
    graph = case.model().graph
    for item in (*graph.input, *graph.initializer):
        item.name = prefix + item.name
    node = graph.node[0]
    node.name = case.name
    for names in (node.input, node.output):
        names[:] = [prefix + n if n else "" for n in names]
    return node, graph.input, graph.initializer


def model_of(cases, wanted):
    nodes, inputs, initializers, outputs = [], [], [], []
    for case in cases:
        node, ins, constants = renamed(case, case.name + "_")
        nodes.append(node)
        inputs.extend(ins)
        initializers.extend(constants)
        outputs += [helper.make_tensor_value_info(name, kernel_cases.element_type(value), value.shape)
                    for name, value in zip(node.output, wanted[case.name])]
    graph = helper.make_graph(nodes, "cases", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", cases[0].opset)], ir_version=10)


class Compiled(unittest.TestCase):
    def check_opset(self, opset):
        cases = [case for case in kernel_cases.CASES if case.opset == opset]
        wanted = {case.name: [np.asarray(v) for v in expected(case)] for case in cases}
        feeds = {case.name + "_" + name: value for case in cases for name, value in case.feeds().items()}
        with tempfile.TemporaryDirectory() as folder:
            model, off = Path(folder) / "cases.onnx", Path(folder) / "cases.off"
            onnx.save(model_of(cases, wanted), str(model))
            toolkit.compile_model(model, off)
            outputs = toolkit.run(off, feeds).outputs
        for case in cases:
            for i, want in enumerate(wanted[case.name]):
                with self.subTest(case.name, output=i):
                    got = outputs["%s_y%d" % (case.name, i)]
                    if want.dtype.kind == "V" or want.dtype.itemsize == 1:
                        want = want.astype(got.dtype)
                    self.assertEqual(got.dtype, want.dtype)
                    self.assertLessEqual(toolkit.relative_error(got, want), case.tolerance)


def opset_test(opset):
    return lambda self: self.check_opset(opset)


for _opset in sorted({case.opset for case in kernel_cases.CASES}):
    setattr(Compiled, "test_opset_%d" % _opset, opset_test(_opset))

if __name__ == "__main__":
    unittest.main()
