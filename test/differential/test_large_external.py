"""A model of 140 GB whose weights are external data: nothing of it is read.

The data is one sparse file, so it takes no disk. Compiling takes seconds and less
than 500 MB of memory, and the `.off` points to the same file."""
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).parent))
import toolkit  # noqa: E402

LAYERS, WIDTH = 520, 8192   # 520 x 8192 x 8192 x 4 bytes = 139.6 GB
LAYER_BYTES = WIDTH * WIDTH * 4
SECONDS, MEMORY_BYTES = 30, 500e6


def write_model(folder):
    nodes, weights, value = [], [], "x"
    for i in range(LAYERS):
        weight = TensorProto(name="w%d" % i, data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH],
                             data_location=TensorProto.EXTERNAL)
        for key, text in (("location", "weights.bin"), ("offset", str(i * LAYER_BYTES)), ("length", str(LAYER_BYTES))):
            weight.external_data.add(key=key, value=text)
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [value, weight.name], ["h%d" % i], name="layer%d" % i))
        value = "h%d" % i
    nodes.append(helper.make_node("Identity", [value], ["y"], name="last"))
    shape = [4, WIDTH]
    graph = helper.make_graph(nodes, "large", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (folder / "large.onnx").write_bytes(model.SerializeToString())
    with open(folder / "weights.bin", "wb") as data:
        data.truncate(LAYERS * LAYER_BYTES)


class LargeExternal(unittest.TestCase):
    def test_compiles_without_reading(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            write_model(folder)
            start = time.monotonic()
            command = [toolkit.tool("offload-opt"), "large.onnx", "-o", "large.off", "--device-memory=8GiB"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            seconds = time.monotonic() - start
            self.assertEqual(done.returncode, 0, done.stderr)
            # Of all children so far: this process has no other.
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            self.assertLess(seconds, SECONDS)
            self.assertLess(peak, MEMORY_BYTES)
            self.assertEqual(sorted(p.name for p in folder.iterdir()), ["large.off", "large.onnx", "weights.bin"])
            self.assertLess((folder / "weights.bin").stat().st_blocks * 512, 1e6)
            staged = [n for n in onnx.load(str(folder / "large.off"), load_external_data=False).graph.node
                      if n.op_type == "Stage"]
            self.assertGreater(len(staged), LAYERS * 3 // 4)


if __name__ == "__main__":
    unittest.main()
