"""Files for the program session-conformance: small graphs compiled for a device,
each with feeds and what ONNX Runtime makes of them.

NAME.off, NAME.feeds.npz, NAME.expected.npz, and NAME.bad.npz with feeds that a
node must refuse."""
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import toolkit


@dataclass
class SessionFile:
    model: onnx.ModelProto
    feeds: dict
    bad: dict = None
    flags: tuple = field(default=())
    card_only: bool = False   # what it shows needs a card, and much memory


def _drawn(seed, *shape, scale=1.0):
    return (np.random.RandomState(seed).standard_normal(shape) * scale).astype(np.float32)


def _value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def _node(operator, inputs, output, name, **attributes):
    return helper.make_node(operator, inputs.split(), [output], name=name, **attributes)


def _model(nodes, inputs, output, constants):
    graph = helper.make_graph(nodes, "session", inputs, [output],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def chain():
    """Products whose weights stream."""
    nodes, constants, at = [], {}, "x"
    for i in range(8):
        constants["w%d" % i] = _drawn(i, 192, 192, scale=0.1)
        nodes += [_node("MatMul", "%s w%d" % (at, i), "p%d" % i, "product%d" % i),
                  _node("Tanh", "p%d" % i, "t%d" % i, "tanh%d" % i)]
        at = "t%d" % i
    nodes.append(_node("Softmax", at, "y", "softmax"))
    return SessionFile(_model(nodes, [_value("x", [16, 192])], _value("y", [16, 192]), constants),
                       {"x": _drawn(20, 16, 192)})


def image():
    """Convolutions, which have a library of their own on a card."""
    constants = {"k0": _drawn(30, 16, 3, 3, 3, scale=0.3), "k1": _drawn(31, 16, 16, 3, 3, scale=0.1),
                 "w": _drawn(32, 16, 10)}
    nodes = [_node("Conv", "x k0", "c0", "conv0", pads=[1, 1, 1, 1]), _node("Relu", "c0", "r0", "relu0"),
             _node("Conv", "r0 k1", "c1", "conv1", pads=[1, 1, 1, 1], strides=[2, 2]), _node("Sigmoid", "c1", "r1", "sigmoid"),
             _node("GlobalAveragePool", "r1", "g", "pool"), _node("Flatten", "g", "f", "flatten"),
             _node("MatMul", "f w", "y", "head")]
    return SessionFile(_model(nodes, [_value("x", [2, 3, 32, 32])], _value("y", [2, 10]), constants),
                       {"x": _drawn(33, 2, 3, 32, 32)})


def computed():
    """Rows by an index that the device computes: what ends in a product is not small enough to be known before a step."""
    constants = {"table": _drawn(40, 12, 64), "ones": np.ones((4, 1), np.float32), "axis": np.array([1], np.int64),
                 "w": _drawn(41, 64, 64, scale=0.2)}
    nodes = [_node("MatMul", "x ones", "sums", "sums"), _node("Cast", "sums", "column", "column", to=TensorProto.INT64),
             _node("Squeeze", "column axis", "rows", "rows"), _node("Gather", "table rows", "e", "lookup"),
             _node("MatMul", "e w", "y", "head")]
    right = np.array([[0, 0, 0, 0], [1, 1, 0, 0], [2, 1, 1, 1.5], [4, 4, 1, 2], [2, 2, 2, 1]], np.float32)
    wrong = right.copy()
    wrong[2, 1] = 40
    return SessionFile(_model(nodes, [_value("x", [5, 4])], _value("y", [5, 64]), constants), {"x": right}, bad={"x": wrong})


def unequal():
    """A product whose inner sizes meet only at run time."""
    constants = {"w": _drawn(50, 6, 6)}
    nodes = [_node("MatMul", "a b", "p", "product"), _node("MatMul", "p w", "y", "head")]
    made = _model(nodes, [_value("a", [4, "m"]), _value("b", ["n", 6])], _value("y", [4, 6]), constants)
    return SessionFile(made, {"a": _drawn(51, 4, 5), "b": _drawn(52, 5, 6)},
                       bad={"a": _drawn(53, 4, 5), "b": _drawn(54, 7, 6)}, flags=("--dim", "m<=8", "--dim", "n<=8"))


def room():
    """512 MiB of device memory for a file of a few bytes."""
    nodes = [_node("Expand", "x large", "e", "expand"), _node("ReduceMax", "e", "y", "largest", keepdims=0)]
    return SessionFile(_model(nodes, [_value("x", [1])], _value("y", []), {"large": np.array([1 << 27], np.int64)}),
                       {"x": np.array([1.5], np.float32)}, card_only=True)


FILES = {made.__name__: made for made in (chain, image, computed, unequal, room)}


def make(folder, target):
    """All that the device has cases for."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in FILES.items():
        file = made()
        if file.card_only and target == "host":
            continue
        source, off = folder / (name + ".onnx"), folder / (name + ".off")
        onnx.save(file.model, source)
        toolkit.save_feeds(toolkit.run_onnxruntime(source, file.feeds), folder / (name + ".expected.npz"))
        toolkit.save_feeds(file.feeds, folder / (name + ".feeds.npz"))
        if file.bad:
            toolkit.save_feeds(file.bad, folder / (name + ".bad.npz"))
        plan = toolkit.plan(source, *file.flags, target=target)
        toolkit.compile_model(source, off, "--device-memory=%d" % plan["smallest_device_memory_bytes"], *file.flags,
                              target=target)
        source.unlink()
