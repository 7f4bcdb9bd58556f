"""Models whose weights are made on the spot: a chain of Linears, and blocks shaped
like Llama 3 8B's. Each is written twice from one set of weights: as ONNX with a raw
data file beside it, and as a PyTorch module.

Weights lie as torch.nn.Linear has them ([out, in]), so both sides multiply the same
bytes in the same layout. Feeds and results are small on both sides."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, save_model

OPSET = 24
TYPES = {torch.bfloat16: TensorProto.BFLOAT16, torch.float16: TensorProto.FLOAT16, torch.float32: TensorProto.FLOAT}


@dataclass(frozen=True)
class BlockShape:
    hidden: int = 4096
    heads: int = 32
    key_heads: int = 8
    intermediate: int = 14336
    blocks: int = 8
    prompt: int = 64       # tokens that are fed; repeated to `tokens`
    kept: int = 16         # last rows, which are the result
    theta: float = 500000.0
    epsilon: float = 1e-5

    @property
    def head_size(self):
        return self.hidden // self.heads

    def weights(self):
        """(name, shape) of all weights in order of use."""
        keys = self.key_heads * self.head_size
        for i in range(self.blocks):
            yield "block%d.norm1" % i, (self.hidden,)
            yield "block%d.q" % i, (self.hidden, self.hidden)
            yield "block%d.k" % i, (keys, self.hidden)
            yield "block%d.v" % i, (keys, self.hidden)
            yield "block%d.o" % i, (self.hidden, self.hidden)
            yield "block%d.norm2" % i, (self.hidden,)
            yield "block%d.gate" % i, (self.intermediate, self.hidden)
            yield "block%d.up" % i, (self.intermediate, self.hidden)
            yield "block%d.down" % i, (self.hidden, self.intermediate)


@dataclass(frozen=True)
class ChainShape:
    size: int = 8192
    links: int = 64
    tokens: int = 64

    def weights(self):
        for i in range(self.links):
            yield "link%d" % i, (self.size, self.size)


def make_weights(shape, device, dtype, seed=7):
    """Matrices that keep the size of what they multiply; norms near one."""
    generator = torch.Generator(device=device).manual_seed(seed)
    made = {}
    for name, dims in shape.weights():
        drawn = torch.empty(dims, dtype=dtype, device=device).normal_(generator=generator)
        made[name] = drawn.mul_(dims[1] ** -0.5) if len(dims) == 2 else drawn.mul_(0.1).add_(1)
    return made


def raw_bytes(tensor):
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data


def write_data(weights, path):
    """One after the other, each at a multiple of 4096 bytes: name -> offset."""
    offsets = {}
    with open(path, "wb") as file:
        for name, tensor in weights.items():
            file.seek(-file.tell() % 4096, 1)
            offsets[name] = file.tell()
            file.write(raw_bytes(tensor))
    return offsets


def external(name, tensor, data, offset):
    proto = TensorProto(name=name, data_type=TYPES[tensor.dtype], dims=tensor.shape,
                        data_location=TensorProto.EXTERNAL)
    for key, value in (("location", data), ("offset", offset), ("length", tensor.nbytes)):
        proto.external_data.add(key=key, value=str(value))
    return proto


class Builder:
    """Nodes and constants of one graph, whose floats are of the weights' type."""

    def __init__(self, weights):
        self.weights = weights
        self.type = TYPES[next(iter(weights.values())).dtype]
        self.nodes, self.constants = [], []

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def integers(self, name, values):
        self.constants.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def linear(self, x, weight, output):
        return self.node("Gemm", [x, weight], output, transB=1)

    def save(self, path, data, offsets, feed, result):
        """`data`: name of the file with the weights, which lie at `offsets`."""
        constants = self.constants + [external(k, w, data, offsets[k]) for k, w in self.weights.items()]
        graph = helper.make_graph(
            self.nodes, path.stem, [helper.make_tensor_value_info("x", self.type, feed)],
            [helper.make_tensor_value_info("y", self.type, result)], constants)
        save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=11), path)


def write_chain(shape, weights, path, data, offsets):
    builder = Builder(weights)
    h = "x"
    for i, name in enumerate(weights):
        h = builder.linear(h, name, "y" if i + 1 == shape.links else "h%d" % i)
    dims = [shape.tokens, shape.size]
    builder.save(path, data, offsets, dims, dims)


class Chain(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.links = list(weights.values())

    def forward(self, x):
        for weight in self.links:
            x = F.linear(x, weight)
        return x


def write_angles(builder, shape, tokens):
    """cos and sin of each position, as [1, tokens, half a head]."""
    half = shape.head_size // 2
    rates = [shape.theta ** (-i / half) for i in range(half)]
    builder.constants += [
        helper.make_tensor("rates", TensorProto.FLOAT, [1, 1, half], rates),
        helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0]),
        helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
        helper.make_tensor("tokens", TensorProto.FLOAT, [], [float(tokens)])]
    builder.node("Range", ["zero", "tokens", "one"], "numbers")
    builder.node("Reshape", ["numbers", builder.integers("column", [1, tokens, 1])], "positions")
    builder.node("Mul", ["positions", "rates"], "angles")
    for name, op in (("cos", "Cos"), ("sin", "Sin")):
        builder.node(op, ["angles"], name + "_float")
        builder.node("Cast", [name + "_float"], name, to=builder.type)


def write_attention(builder, shape, at, x):
    """From normed rows to what is added to the hidden state."""
    def heads(name, count, rotate):
        flat = builder.linear(x, at + name, at + name + "_rows")
        out = builder.node("Reshape", [flat, "as_batch"], at + name + "_batch")
        if rotate:
            out = builder.node("RotaryEmbedding", [out, "cos", "sin"], at + name + "_rotated", num_heads=count)
        return out
    query, key = heads("q", shape.heads, True), heads("k", shape.key_heads, True)
    seen = builder.node("Attention", [query, key, heads("v", shape.key_heads, False)], at + "seen", is_causal=1,
                        q_num_heads=shape.heads, kv_num_heads=shape.key_heads)
    return builder.linear(builder.node("Reshape", [seen, "as_rows"], at + "seen_rows"), at + "o", at + "o_rows")


def write_feed_forward(builder, at, x):
    gate = builder.node("Swish", [builder.linear(x, at + "gate", at + "gate_rows")], at + "gated")
    both = builder.node("Mul", [gate, builder.linear(x, at + "up", at + "up_rows")], at + "both")
    return builder.linear(both, at + "down", at + "down_rows")


def write_blocks(shape, tokens, weights, path, data, offsets):
    builder = Builder(weights)
    builder.integers("as_batch", [1, tokens, -1])
    builder.integers("as_rows", [tokens, -1])
    write_angles(builder, shape, tokens)
    h = builder.node("Tile", ["x", builder.integers("repeats", [tokens // shape.prompt, 1])], "h")

    def norm(x, weight):
        return builder.node("RMSNormalization", [x, weight], weight + "_rows", axis=-1, epsilon=shape.epsilon)
    for i in range(shape.blocks):
        at = "block%d." % i
        seen = write_attention(builder, shape, at, norm(h, at + "norm1"))
        h = builder.node("Add", [h, seen], at + "h1")
        more = write_feed_forward(builder, at, norm(h, at + "norm2"))
        h = builder.node("Add", [h, more], at + "h2")
    builder.node("Slice", [h, builder.integers("first", [tokens - shape.kept]), builder.integers("end", [tokens])], "y")
    builder.save(path, data, offsets, [shape.prompt, shape.hidden], [shape.kept, shape.hidden])


class Blocks(torch.nn.Module):
    """The same in PyTorch's own operators: fused norms, flash attention."""

    def __init__(self, shape, tokens, weights):
        super().__init__()
        self.shape, self.tokens, self.weights = shape, tokens, weights

    def angles(self, device):
        half = self.shape.head_size // 2
        rates = self.shape.theta ** (-torch.arange(half, dtype=torch.float32, device=device) / half)
        angles = torch.arange(self.tokens, dtype=torch.float32, device=device)[:, None] * rates
        dtype = next(iter(self.weights.values())).dtype
        return angles.cos().to(dtype), angles.sin().to(dtype)

    @staticmethod
    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def attend(self, x, at, cos, sin):
        def heads(name):
            return F.linear(x, self.weights[at + name]).view(1, self.tokens, -1, self.shape.head_size).transpose(1, 2)
        query, key = self.rotate(heads("q"), cos, sin), self.rotate(heads("k"), cos, sin)
        seen = F.scaled_dot_product_attention(query, key, heads("v"), is_causal=True, enable_gqa=True)
        return F.linear(seen.transpose(1, 2).reshape(self.tokens, -1), self.weights[at + "o"])

    def forward(self, x):
        def norm(x, name):
            return F.rms_norm(x, (self.shape.hidden,), self.weights[name], self.shape.epsilon)

        def linear(x, name):
            return F.linear(x, self.weights[name])
        cos, sin = self.angles(x.device)
        h = x.repeat(self.tokens // self.shape.prompt, 1)
        for i in range(self.shape.blocks):
            at = "block%d." % i
            h = h + self.attend(norm(h, at + "norm1"), at, cos, sin)
            rows = norm(h, at + "norm2")
            h = h + linear(F.silu(linear(rows, at + "gate")) * linear(rows, at + "up"), at + "down")
        return h[-self.shape.kept:].contiguous()
