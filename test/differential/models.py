"""The models that the judges run: trained ones out of PyPI wheels, and exports
with random weights of usual architectures.

`get(name)` gives a Model; files are made once and kept in the user's cache, keyed
by this file, families.py and the versions of the packages that make them. MODELS
names all of them, SAMPLE those of script/test."""
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np

import families
import toolkit


@dataclass
class Model:
    name: str
    path: Path
    feeds: Callable[[int], dict]   # seed -> feeds of one run
    flags: list                    # --dim flags that compiling needs
    tolerance: float = 1e-4
    eager: Callable[[int], dict] = None   # seed -> PyTorch's outputs, where ONNX Runtime cannot judge


def _package_file(package, relative):
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise RuntimeError("package %s is not installed: run script/bootstrap" % package)
    return Path(spec.submodule_search_locations[0]) / relative


def _image(shape):
    def feeds(seed):
        return {"x": np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)}
    return feeds


def _page(shape):
    """Dark strokes in a line on a light page, so that a text detector sees some."""
    def feeds(seed):
        random = np.random.RandomState(seed)
        image = np.full(shape, 1.5, np.float32)
        height, width = shape[2:]
        for left in range(width // 8, width - width // 8, 6):
            top = height // 2 - 12 + random.randint(0, 4)
            image[:, :, top:top + 22, left:left + 2] = -1.5
            cross = top + random.randint(0, 20)
            image[:, :, cross:cross + 3, left:left + 5] = -1.5
        return {"x": image + random.uniform(-0.1, 0.1, shape).astype(np.float32)}
    return feeds


# ------------------------------------------------------------------ trained
def _shipped(package, file):
    return lambda target: shutil.copyfile(_package_file(package, file), target)


def _rapidocr(file):
    return _shipped("rapidocr_onnxruntime", "models/" + file)


def _file_bytes(seed):
    return {"bytes": np.random.RandomState(seed).randint(0, 257, (2, 2048)).astype(np.int32)}


# ------------------------------------------------------- random-weight exports
def _export(module, arguments, target, opset, inputs, outputs, dynamic=None, half=False):
    module = module.eval()
    if half:
        module = module.half()
        arguments = tuple(a.half() if a.is_floating_point() else a for a in arguments)
    families.export(module, arguments, target, opset, inputs, outputs, dynamic)


def _seeded():
    import torch
    torch.manual_seed(1234)
    return torch


def _resnet(opset, half=False):
    def make(target):
        torch = _seeded()
        import torchvision
        net = torchvision.models.resnet18(weights=None, num_classes=32)
        for m in net.modules():   # running statistics that are not 0 and 1
            if isinstance(m, torch.nn.BatchNorm2d):
                m.running_mean.uniform_(-0.2, 0.2)
                m.running_var.uniform_(0.5, 1.5)
        _export(net, (torch.randn(2, 3, 64, 64),), target, opset, ["x"], ["y"], half=half)
    return make


class _Logits:
    """Wraps a transformers model so that its export has one tensor each way."""
    def __new__(cls, model):
        import torch

        class Wrapped(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids):
                return self.model(input_ids=ids, use_cache=False).logits
        return Wrapped()


def _gpt2(opset, half=False, dynamic=False):
    def make(target):
        torch = _seeded()
        from transformers import GPT2Config, GPT2LMHeadModel
        config = GPT2Config(vocab_size=1000, n_positions=64, n_embd=128, n_layer=3, n_head=4,
                            attn_implementation="eager")
        net = _Logits(GPT2LMHeadModel(config))
        shapes = None
        if dynamic:
            shapes = ({0: torch.export.Dim("batch", min=1, max=8), 1: torch.export.Dim("seq", min=2, max=64)},)
        _export(net, (torch.randint(0, 1000, (2, 16)),), target, opset, ["ids"], ["logits"], shapes, half)
    return make


def _ids(batch, length, vocabulary, name="ids"):
    def feeds(seed):
        return {name: np.random.RandomState(seed).randint(0, vocabulary, (batch, length)).astype(np.int64)}
    return feeds


def _half_image(shape):
    def feeds(seed):
        return {k: v.astype(np.float16) for k, v in _image(shape)(seed).items()}
    return feeds


# name -> (maker, feeds, flags, tolerance)
MODELS = {
    "ocr-detector": (_rapidocr("ch_PP-OCRv4_det_infer.onnx"), _page((1, 3, 96, 160)), ["--dim", "x:0=1", "--dim", "x:2=96", "--dim", "x:3=160"], 1e-4),
    "ocr-recognizer": (_rapidocr("ch_PP-OCRv4_rec_infer.onnx"), _image((1, 3, 48, 160)), ["--dim", "x:0=1", "--dim", "x:2=48", "--dim", "x:3=160"], 1e-4),
    "ocr-classifier": (_rapidocr("ch_ppocr_mobile_v2.0_cls_infer.onnx"), _image((1, 3, 48, 192)), ["--dim", "x:0=1", "--dim", "x:2=48", "--dim", "x:3=192"], 1e-4),
    "magika": (_shipped("magika", "models/standard_v3_3/model.onnx"), _file_bytes, ["--dim", "bytes:0=2"], 1e-4),
    "resnet18-opset18": (_resnet(18), _image((2, 3, 64, 64)), [], 1e-4),
    "resnet18-opset23-half": (_resnet(23, half=True), _half_image((2, 3, 64, 64)), [], 2e-2),
    "gpt2-opset18": (_gpt2(18), _ids(2, 16, 1000), [], 1e-4),
    "gpt2-opset23": (_gpt2(23), _ids(2, 16, 1000), [], 1e-4),
    "gpt2-opset20-half": (_gpt2(20, half=True), _ids(2, 16, 1000), [], 2e-2),
    "gpt2-opset21-dynamic": (_gpt2(21, dynamic=True), _ids(3, 20, 1000), ["--dim", "batch<=4", "--dim", "seq<=32"], 1e-4),
}


# At least one of each family in each type, each form, static and dynamic.
SAMPLE = [*MODELS,
          "resnet-opset23-dynamic-bfloat16",
          "mobilenet-v3-static-float32", "mobilenet-v2-dynamic-float16", "mobilenet-v3-dynamic-bfloat16",
          "vit-attention-dynamic-float32", "vit-decomposed-static-float16", "vit-attention-static-bfloat16",
          "bert-attention-dynamic-float32", "bert-eager-static-float16", "bert-decomposed-dynamic-bfloat16",
          "gpt2-attention-dynamic-bfloat16",
          "llama-attention-dynamic-float32", "llama-decomposed-dynamic-float16", "llama-attention-static-bfloat16"]
MODELS.update({name: (variant, variant.feeds, variant.flags, families.TOLERANCES[variant.type])
               for name, variant in families.VARIANTS.items()})


def _version(package):
    """Empty where it is not installed: only what it makes needs it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _key():
    digest = hashlib.sha256(Path(__file__).read_bytes() + Path(families.__file__).read_bytes())
    for package in ("torch", "torchvision", "transformers", "onnx", "onnxscript", "rapidocr-onnxruntime", "magika"):
        digest.update(_version(package).encode())
    return digest.hexdigest()[:16]


def _eager_file(folder, name, seed):
    return folder / ("%s.eager-%d.npz" % (name, seed))


def _make_variant(variant, name, scratch, folder):
    """The model comes last into the cache: where it is, its outputs are."""
    families.make(variant, scratch / "model.onnx", lambda seed: _eager_file(scratch, name, seed))
    for path in sorted(scratch.glob("*.npz")):
        os.replace(path, folder / path.name)


def get(name):
    make, feeds, flags, tolerance = MODELS[name]
    folder = toolkit.CACHE / ("models-" + _key())
    path = folder / (name + ".onnx")
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            target = Path(scratch) / "model.onnx"
            if isinstance(make, families.Variant):
                _make_variant(make, name, Path(scratch), folder)
            else:
                make(target)
            os.replace(target, path)
    model = Model(name, path, feeds, list(flags), tolerance)
    if isinstance(make, families.Variant) and make.eager:
        model.eager = lambda seed: toolkit.load_arrays(_eager_file(folder, name, seed))
    return model
