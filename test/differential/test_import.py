"""What offload-opt reads and what it refuses, against the `onnx` package.

Contents: every legal field of every type is written by hand, read by the tool,
given back by --strip, and compared with the bytes that numpy made. Files:
external data in all its forms, and the layout of a Hugging Face cache. Refusals:
one line each, exit code 1, and no output."""
import itertools
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
import toolkit  # noqa: E402

# type -> (numpy type of the stored bits, typed field, numbers in the field a bit pattern)
FIELDS = {
    T.FLOAT: (np.float32, "float_data"), T.DOUBLE: (np.float64, "double_data"),
    T.INT64: (np.int64, "int64_data"), T.UINT64: (np.uint64, "uint64_data"), T.UINT32: (np.uint32, "uint64_data"),
    T.INT32: (np.int32, "int32_data"), T.INT16: (np.int16, "int32_data"), T.UINT16: (np.uint16, "int32_data"),
    T.INT8: (np.int8, "int32_data"), T.UINT8: (np.uint8, "int32_data"), T.BOOL: (np.bool_, "int32_data"),
    T.FLOAT16: (np.uint16, "int32_data"), T.BFLOAT16: (np.uint16, "int32_data"),
    T.FLOAT8E4M3FN: (np.uint8, "int32_data"), T.FLOAT8E4M3FNUZ: (np.uint8, "int32_data"),
    T.FLOAT8E5M2: (np.uint8, "int32_data"), T.FLOAT8E5M2FNUZ: (np.uint8, "int32_data"),
    T.FLOAT8E8M0: (np.uint8, "int32_data"),
}
PACKED = {T.INT4: 2, T.UINT4: 2, T.FLOAT4E2M1: 2, T.INT2: 4, T.UINT2: 4}  # elements a byte


def stored(data_type, elements):
    """(raw bytes, numbers of the typed field) of deterministic contents."""
    rng = np.random.default_rng(data_type)
    if data_type in PACKED:
        raw = rng.integers(0, 256, -(-elements // PACKED[data_type]), np.uint8)
        spare = elements % PACKED[data_type]
        if spare:  # bits behind the last element are zero
            raw[-1] &= (1 << spare * (8 // PACKED[data_type])) - 1
        return raw.tobytes(), raw.tolist()
    kind, _ = FIELDS[data_type]
    if kind in (np.float32, np.float64):
        values = rng.standard_normal(elements).astype(kind)
    elif kind is np.bool_:
        values = rng.integers(0, 2, elements).astype(kind)
    else:
        info = np.iinfo(kind)
        values = rng.integers(info.min, info.max, elements, kind, endpoint=True)
        values[:2] = info.min, info.max
    numbers = values.astype(np.int64) if kind is np.bool_ else values
    return values.tobytes(), numbers.tolist()


def model_of(tensors, nodes=None, inputs=None, outputs=None, opset=21, ir_version=14, **extra):
    """y = Relu(x), and each tensor is an output as it is."""
    nodes = nodes if nodes is not None else [helper.make_node("Relu", ["x"], ["y"])]
    inputs = inputs or [helper.make_tensor_value_info("x", T.FLOAT, [2])]
    outputs = outputs or [helper.make_tensor_value_info("y", T.FLOAT, [2])] + [
        helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in tensors]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors, **extra)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def external(name, data_type, dims, **entries):
    tensor = T(name=name, data_type=data_type, dims=dims, data_location=T.EXTERNAL)
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=str(text))
    return tensor


class Import(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def save(self, model, name="m.onnx"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return path

    def contents(self, path, *flags):
        """Constants of the model that --strip gives back: name -> (type, dims, bytes)."""
        plain = self.folder / "plain" / "m.onnx"
        plain.parent.mkdir(exist_ok=True)
        toolkit.call("offload-opt", path, "--strip", "-o", plain, *flags)
        graph = onnx.load(str(plain)).graph
        return {t.name: (t.data_type, list(t.dims), raw_of(t)) for t in graph.initializer}

    def refuse(self, path, *parts, flags=()):
        """One line that holds all parts, exit code 1, nothing written."""
        before = sorted(p for p in self.folder.rglob("*"))
        code, stderr = toolkit.refused("offload-opt", path, "-o", self.folder / "out.off", *flags)
        self.assertEqual(code, 1, stderr)
        self.assertEqual(len(stderr.strip().splitlines()), 1, stderr)
        self.assertTrue(stderr.startswith("offload-opt: error: "), stderr)
        for part in parts:
            self.assertIn(part, stderr)
        self.assertEqual(sorted(p for p in self.folder.rglob("*")), before)


def raw_of(tensor):
    if tensor.HasField("raw_data") or not tensor.ByteSize():
        return tensor.raw_data
    if tensor.data_type in PACKED:
        return bytes(n & 255 for n in tensor.int32_data)
    kind, field = FIELDS[tensor.data_type]
    return np.array(list(getattr(tensor, field)), kind).tobytes()


class Contents(Import):
    def test_every_field_of_every_type(self):
        tensors, want = [], {}
        for data_type, elements in itertools.product([*FIELDS, *PACKED], (7, 8)):
            raw, numbers = stored(data_type, elements)
            field = FIELDS.get(data_type, (None, "int32_data"))[1]
            name = "%s_%d" % (T.DataType.Name(data_type), elements)
            for form in ("raw", "typed"):
                t = T(name=name + form, data_type=data_type, dims=[elements])
                if form == "raw":
                    t.raw_data = raw
                else:
                    getattr(t, field).extend(numbers)
                tensors.append(t)
                want[t.name] = (data_type, [elements], raw)
        self.assertEqual(len(want), 4 * (len(FIELDS) + len(PACKED)))
        got = self.contents(self.save(model_of(tensors)))
        for name, value in want.items():
            with self.subTest(name):
                self.assertEqual(got.get(name), value)

    def test_scalars_and_nothing(self):
        scalar = numpy_helper.from_array(np.array(2.5, np.float32), "scalar")
        empty = T(name="empty", data_type=T.FLOAT, dims=[3, 0, 4])
        got = self.contents(self.save(model_of([scalar, empty])))
        self.assertEqual(got["scalar"], (T.FLOAT, [], struct.pack("<f", 2.5)))
        self.assertEqual(got["empty"], (T.FLOAT, [3, 0, 4], b""))

    def test_signed_bits_of_half_floats(self):
        t = T(name="w", data_type=T.FLOAT16, dims=[2], int32_data=[-1024, 15360])  # -inf sign-extended, 1
        self.assertEqual(self.contents(self.save(model_of([t])))["w"][2], struct.pack("<HH", 0xFC00, 0x3C00))

    def test_refused_contents(self):
        def tensor(data_type=T.FLOAT, dims=(2,), **fields):
            return T(name="w", data_type=data_type, dims=dims, **fields)

        cases = {
            "short raw": (tensor(raw_data=b"\0" * 7), "7 bytes", "need 8"),
            "long raw": (tensor(raw_data=b"\0" * 9), "9 bytes", "need 8"),
            "few numbers": (tensor(float_data=[1]), "1 numbers", "need 2"),
            "many numbers": (tensor(float_data=[1, 2, 3]), "3 numbers", "need 2"),
            "no data": (tensor(), "has no data"),
            "data without elements": (tensor(dims=[0], float_data=[1]), "1 numbers", "need 0"),
            "two fields": (tensor(float_data=[1, 2], int32_data=[1]), "float_data and int32_data"),
            "wrong field": (tensor(double_data=[1, 2]), "double_data", "float_data"),
            "half in float_data": (tensor(T.FLOAT16, float_data=[1, 2]), "float_data", "int32_data"),
            "no uint8": (tensor(T.UINT8, int32_data=[1, 256]), "number 256", "uint8"),
            "no int8": (tensor(T.INT8, int32_data=[1, -129]), "number -129", "int8"),
            "no uint32": (tensor(T.UINT32, uint64_data=[1, 1 << 32]), "4294967296", "uint32"),
            "no bool": (tensor(T.BOOL, int32_data=[0, 2]), "number 2", "bool"),
            "odd int4": (tensor(T.INT4, [3], int32_data=[1]), "1 numbers", "need 2"),
            "string": (tensor(T.STRING, string_data=[b"a", b"b"]), "string"),
            "complex": (tensor(T.COMPLEX64, float_data=[1] * 4), "complex64"),
            "six bits": (tensor(27, int32_data=[1, 2]), "float6e2m3"),
            "undefined": (tensor(T.UNDEFINED, float_data=[1, 2]), "no element type"),
            "unknown type": (tensor(77, float_data=[1, 2]), "type 77"),
            "negative": (tensor(dims=[-2], float_data=[1, 2]), "cannot be negative"),
            "2^62 elements": (tensor(dims=[1 << 31, 1 << 31], float_data=[1]), "more than can be counted"),
            "2^124 elements": (tensor(dims=[1 << 62, 1 << 62], float_data=[1]), "more than can be counted"),
        }
        for label, (bad, *parts) in cases.items():
            with self.subTest(label):
                outputs = [helper.make_tensor_value_info("y", T.FLOAT, [2])]
                self.refuse(self.save(model_of([bad], outputs=outputs)), "initializer 'w'", *parts)

    def test_sparse_initializers(self):
        model = model_of([])
        values = numpy_helper.from_array(np.ones(1, np.float32), "s")
        indices = numpy_helper.from_array(np.zeros(1, np.int64), "s_indices")
        model.graph.sparse_initializer.add(values=values, indices=indices, dims=[4])
        self.refuse(self.save(model), "initializer 's' is sparse")

    def test_a_name_twice(self):
        w = numpy_helper.from_array(np.ones(2, np.float32), "w")
        self.refuse(self.save(model_of([w, w])), "'w' is made twice")


class ExternalData(Import):
    def test_files_orders_gaps_and_offsets(self):
        rng = np.random.default_rng(1)
        a, b, c, d = (rng.standard_normal(n).astype(np.float32) for n in (5, 64, 3, 6))
        (self.folder / "sub").mkdir()
        (self.folder / "one.bin").write_bytes(b"\x55" * 70001 + b.tobytes() + b"\x55" * 9 + a.tobytes() + b"\x55")
        (self.folder / "sub" / "two.bin").write_bytes(c.tobytes() + d.tobytes())
        tensors = [
            external("a", T.FLOAT, [5], location="one.bin", offset=70001 + b.nbytes + 9, length=a.nbytes),
            external("b", T.FLOAT, [8, 8], location="one.bin", offset=70001, length=b.nbytes, checksum="ignored"),
            external("c", T.FLOAT, [3], location="sub/two.bin"),
            external("d", T.FLOAT, [2, 3], location="sub/./two.bin", offset=c.nbytes),
            external("none", T.FLOAT, [0], location="one.bin", offset=3, length=0),
        ]
        node = helper.make_node("Constant", [], ["k"], value=external("k", T.FLOAT, [5], location="one.bin",
                                                                      offset=70001 + b.nbytes + 9))
        relu = helper.make_node("Relu", ["x"], ["y"])
        outputs = [helper.make_tensor_value_info("y", T.FLOAT, [2])]
        got = self.contents(self.save(model_of(tensors, [node, relu], outputs=outputs)))
        for name, value in {"a": a, "b": b, "c": c, "d": d, "k": a}.items():
            self.assertEqual(got[name][2], value.tobytes(), name)
        self.assertEqual(got["none"][1:], ([0], b""))

    def test_too_short_or_malformed(self):
        (self.folder / "w.bin").write_bytes(b"\0" * 100)

        def case(*parts, dims=(20,), **entries):
            outputs = [helper.make_tensor_value_info("y", T.FLOAT, [2])]
            model = model_of([external("w", T.FLOAT, dims, **entries)], outputs=outputs)
            with self.subTest(str(entries)):
                self.refuse(self.save(model), "initializer 'w'", *parts)

        case("'w.bin'", "offset 24", "length 80", "ends at 100 bytes", location="w.bin", offset=24, length=80)
        case("offset 24", "ends at 100", location="w.bin", offset=24)
        case("offset 9223372036854775807", location="w.bin", offset=(1 << 63) - 1, length=80)
        case("79 bytes", "need 80", location="w.bin", length=79)
        case("81 bytes", "need 80", location="w.bin", length=81)
        case("offset '-1'", location="w.bin", offset=-1)
        case("offset '99999999999999999999'", location="w.bin", offset=99999999999999999999)
        case("length 'much'", location="w.bin", length="much")
        case("no such file", "'nowhere.bin'", location="nowhere.bin")
        case("it is a directory", location=".")
        case("without a location", offset=0)
        case("'w.bin'", dims=[1 << 20, 1 << 20], location="w.bin")

    def test_paths_that_leave_the_folder(self):
        data = np.arange(2, dtype=np.float32)
        outside, inside = self.folder / "outside", self.folder / "model"
        for folder in (outside, inside):
            folder.mkdir()
        (outside / "w.bin").write_bytes(data.tobytes())
        (inside / "link.bin").symlink_to(outside / "w.bin")
        (inside / "linked").symlink_to(outside)
        (inside / "chain.bin").symlink_to("link.bin")
        (inside / "own.bin").write_bytes(data.tobytes())
        (inside / "twin.bin").symlink_to("own.bin")
        for location in ("../outside/w.bin", str(outside / "w.bin"), "link.bin", "linked/w.bin", "chain.bin",
                         "linked/../w.bin", "../model/own.bin"):
            with self.subTest(location):
                path = self.save(model_of([external("w", T.FLOAT, [2], location=location)]), "model/m.onnx")
                self.refuse(path, "initializer 'w'", "'%s'" % location, "--data-folder")
                if location != "../model/own.bin" and location != "linked/../w.bin":
                    got = self.contents(path, "--data-folder=%s" % outside)
                    self.assertEqual(got["w"][2], data.tobytes())
                self.refuse(path, "leaves", flags=["--data-folder=%s" % (self.folder / "model" / "nowhere")])
        path = self.save(model_of([external("w", T.FLOAT, [2], location="twin.bin")]), "model/m.onnx")
        self.assertEqual(self.contents(path)["w"][2], data.tobytes())
        # A folder whose name only begins like the trusted one is not in it.
        (self.folder / "outside2").mkdir()
        (self.folder / "outside2" / "w.bin").write_bytes(data.tobytes())
        path = self.save(model_of([external("w", T.FLOAT, [2], location="../outside2/w.bin")]), "model/m.onnx")
        self.refuse(path, "leaves", flags=["--data-folder=%s" % outside])

    def test_hugging_face_cache(self):
        data = np.arange(6, dtype=np.float32)
        blobs, snapshot = self.folder / "models--a--b" / "blobs", self.folder / "models--a--b" / "snapshots" / "0f3c"
        blobs.mkdir(parents=True)
        (snapshot / "onnx").mkdir(parents=True)
        model = model_of([external("w", T.FLOAT, [6], location="model.onnx_data")])
        (blobs / "aa11").write_bytes(model.SerializeToString())
        (blobs / "bb22").write_bytes(data.tobytes())
        (snapshot / "onnx" / "model.onnx").symlink_to("../../../blobs/aa11")
        (snapshot / "onnx" / "model.onnx_data").symlink_to("../../../blobs/bb22")
        self.assertEqual(self.contents(snapshot / "onnx" / "model.onnx")["w"][2], data.tobytes())
        # A link to a model whose data lies beside the real file.
        real = self.folder / "real"
        real.mkdir()
        (real / "m.onnx").write_bytes(model.SerializeToString())
        (real / "model.onnx_data").write_bytes(data.tobytes())
        (self.folder / "alias.onnx").symlink_to(real / "m.onnx")
        self.assertEqual(self.contents(self.folder / "alias.onnx")["w"][2], data.tobytes())

    def test_a_relative_path_and_standard_input(self):
        data = np.arange(2, dtype=np.float32)
        (self.folder / "w.bin").write_bytes(data.tobytes())
        model = model_of([external("w", T.FLOAT, [2], location="w.bin")])
        self.save(model)
        for arguments, given in ((["m.onnx"], None), (["-"], model.SerializeToString())):
            done = subprocess.run([toolkit.tool("offload-opt"), *arguments, "--strip", "-o", "plain.onnx"],
                                  cwd=self.folder, input=given, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            w = onnx.load(str(self.folder / "plain.onnx")).graph.initializer[0]
            self.assertEqual(raw_of(w), data.tobytes())


class Files(Import):
    def test_what_is_no_model(self):
        whole = model_of([numpy_helper.from_array(np.ones(1000, np.float32), "w")]).SerializeToString()
        self.refuse(self.folder / "none.onnx", "cannot open", "No such file")
        self.refuse(self.folder, "it is a directory")
        self.refuse(self.save(b""), "is empty")
        self.refuse(self.save(b"PK\3\4 a zip file"), "is no ONNX model")
        self.refuse(self.save(b"\x89PNG\r\n\x1a\n" + bytes(100)), "is no ONNX model")
        self.refuse(self.save(b"hello\n" * 20), "is no ONNX model")
        self.refuse(self.save(bytes(100)), "is no ONNX model")
        self.refuse(self.save(b"\x08\x0a"), "it has no graph")
        self.refuse(self.save(whole[:-5]), "truncated")
        self.refuse(self.save(b"<ir_version: 10", "m.onnxtxt"), "is no model in ONNX's text")
        os.mkfifo(self.folder / "pipe")
        self.refuse(self.folder / "pipe", "not a regular file")

    def test_every_truncation_is_an_error(self):
        whole = model_of([numpy_helper.from_array(np.ones(4, np.float32), "w")]).SerializeToString()
        for length in range(0, len(whole), 3):
            path = self.save(whole[:length])
            done = subprocess.run([toolkit.tool("offload-opt"), path, "--strip", "-o", self.folder / "out"],
                                  capture_output=True, text=True)
            with self.subTest(length):
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_damaged_bytes_never_crash(self):
        whole = bytearray(model_of([numpy_helper.from_array(np.ones(4, np.float32), "w")],
                                   nodes=[helper.make_node("Add", ["x", "x"], ["y"])]).SerializeToString())
        rng = np.random.default_rng(3)
        codes = set()
        for _ in range(300):
            damaged = bytearray(whole)
            for place in rng.integers(0, len(whole), 2):
                damaged[place] = rng.integers(0, 256)
            done = subprocess.run([toolkit.tool("offload-opt"), self.save(bytes(damaged)), "--emit=text"],
                                  capture_output=True, text=True, errors="replace")
            codes.add(done.returncode)
            if done.returncode:
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertEqual(codes, {0, 1})

    def test_larger_than_protobuf(self):
        path = self.save(b"\x08\x0a")
        with open(path, "r+b") as file:
            file.truncate(1 << 31)
        self.refuse(path, "2147483648 bytes", "external data")


class Opsets(Import):
    def typed_model(self, operator, types, output, opset=22, **attributes):
        """One node over inputs of two by two (Conv: images), each of its own type."""
        shape = [2, 2, 2, 2] if operator == "Conv" else [2, 2]
        names = ["abcdef"[i] if t else "" for i, t in enumerate(types)]
        inputs = [helper.make_tensor_value_info(n, t, shape) for n, t in zip(names, types) if t]
        node = helper.make_node(operator, names, ["y"], name="n", **attributes)
        outputs = [helper.make_tensor_value_info("y", output, None)]
        return self.save(model_of([], [node], inputs, outputs, opset, 10))

    def test_operands_of_one_type(self):
        f32, f16, b16, i64, i32 = T.FLOAT, T.FLOAT16, T.BFLOAT16, T.INT64, T.INT32
        mixed = [("Conv", [b16, f32], b16, "'a' of type bfloat16 and 'b' of type float,"),
                 ("Conv", [f32, f32, f16], f32, "'a' of type float and 'c' of type float16,"),
                 ("MatMul", [f32, f16], f32, "'a' of type float and 'b' of type float16,"),
                 ("Add", [i32, i64], i64, "'a' of type int32 and 'b' of type int64,"),
                 ("Concat", [f32, f32, f16], f32, "'a' of type float and 'c' of type float16,"),
                 ("Clip", [f32, None, f16], f32, "'a' of type float and 'c' of type float16,"),
                 ("Where", [T.BOOL, f32, f16], f32, "'b' of type float and 'c' of type float16,")]
        for operator, types, output, words in mixed:
            with self.subTest(operator, types=types):
                path = self.typed_model(operator, types, output, **({"axis": 0} if operator == "Concat" else {}))
                self.refuse(path, "[n] uses operator %s with %s which must be of one type (T): put a Cast" % (operator, words))

    def test_types_that_an_operator_does_not_take(self):
        self.refuse(self.typed_model("Where", [T.FLOAT, T.FLOAT, T.FLOAT], T.FLOAT),
                    "[n] uses operator Where with 'a' of type float, and there it takes bool: put a Cast to one of these before the node")
        self.refuse(self.typed_model("Gather", [T.FLOAT, T.FLOAT], T.FLOAT), "with 'b' of type float, and there it takes int32 or int64")

    def test_types_that_may_differ(self):
        f32, i64 = T.FLOAT, T.INT64
        for operator, types, output in [("Gather", [f32, i64], f32), ("Where", [T.BOOL, f32, f32], f32),
                                        ("Pow", [f32, i64], f32), ("Equal", [i64, i64], T.BOOL), ("CastLike", [i64, f32], f32),
                                        ("Conv", [T.BFLOAT16, T.BFLOAT16], T.BFLOAT16), ("Clip", [i64], i64)]:
            with self.subTest(operator, types=types):
                path = self.typed_model(operator, types, output)
                toolkit.call("offload-opt", path, "--strip", "-o", self.folder / "plain.onnx")
        # Exporters write it: opset 22 is the first that takes it.
        path = self.typed_model("Conv", [T.BFLOAT16, T.BFLOAT16], T.BFLOAT16, opset=18)
        toolkit.call("offload-opt", path, "--strip", "-o", self.folder / "plain.onnx")

    def test_all_versions_are_read(self):
        for opset, ir_version in [(11, 3), (12, 6), (13, 4), (17, 8), (21, 10), (25, 12), (28, 14)]:
            w = numpy_helper.from_array(np.ones(2, np.float32), "w")
            inputs = [helper.make_tensor_value_info("x", T.FLOAT, [2])]
            if ir_version < 4:
                inputs.append(helper.make_tensor_value_info("w", T.FLOAT, [2]))
            nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
            outputs = [helper.make_tensor_value_info("y", T.FLOAT, [2])]
            model = model_of([w], nodes, inputs, outputs, opset, ir_version)
            with self.subTest(opset=opset, ir_version=ir_version):
                self.assertEqual(self.contents(self.save(model))["w"][2], w.raw_data)


if __name__ == "__main__":
    unittest.main()
