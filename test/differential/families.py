"""Exports of six families of networks with random weights, at small size.

`VARIANTS` maps a name, FAMILY-FORM-SHAPES-TYPE, to what makes it. A form is a way
that a family is exported: for transformers the Attention operator of opset 23, its
decomposition by the exporter, or the one that the model's own code spells out.
Shapes are static, or dynamic in the batch (and in the sequence, where there is
one). `make` writes the model and, where ONNX Runtime does not run it, what PyTorch
gives for the feeds of EAGER_SEEDS."""
import itertools
import os
import unittest.mock
import warnings
from dataclasses import dataclass
from typing import Callable

import ml_dtypes
import numpy as np

TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
TOLERANCES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 2e-2}
EAGER_SEEDS = (5,)
WIDTH, HEADS, VOCABULARY, LONGEST = 128, 4, 512, 64
TRANSFORMER_FORMS = {"attention": (23, "sdpa"), "decomposed": (20, "sdpa"), "eager": (18, "eager")}


@dataclass(frozen=True)
class Family:
    network: Callable   # form -> module in float32
    feeds: Callable     # (seed, batch, length, dtype) -> feeds, in the order of the module's operands
    output: str
    forms: dict         # form -> (opset, what `network` is given)
    images: bool        # fed with these, and so with convolutions; else with texts, whose second dimension is dynamic too


@dataclass(frozen=True)
class Variant:
    family: Family
    form: str
    dynamic: bool
    type: str
    eager: bool   # whether ONNX Runtime does not run it on the CPU

    @property
    def opset(self):
        """The form's; ONNX has convolutions in bfloat16 from opset 22 on."""
        opset, _ = self.family.forms[self.form]
        return max(opset, 22) if self.family.images and self.type == "bfloat16" else opset

    @property
    def flags(self):
        bounds = ["batch<=4", "seq<=32"][:1 if self.family.images else 2]
        return [word for bound in bounds for word in ("--dim", bound)] if self.dynamic else []

    def feeds(self, seed):
        """Of a run. Dynamic sizes are under their bounds, and not those of the export."""
        batch, length = (3, 20) if self.dynamic else (2, 16)
        return self.family.feeds(seed, batch, length, TYPES[self.type])


# ----------------------------------------------------------------- convolution
def images(seed, batch, length, dtype):
    return {"x": np.random.RandomState(seed).uniform(-1, 1, (batch, 3, 64, 64)).astype(dtype)}


def patches(seed, batch, length, dtype):
    return {"x": np.random.RandomState(seed).uniform(-1, 1, (batch, 3, 32, 32)).astype(dtype)}


def _wrapped(model, call):
    """A module of as many operands as `call` takes beside the model."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *operands):
            return call(self.model, *operands)
    return Wrapped()


def _measured(network, residual=False):
    """Running statistics of one batch, or values fade from layer to layer. The exporter folds them into convolutions;
    they are folded here already, in float32, so that PyTorch runs with the weights that the model has.

    `residual`: a ResNet. Its branches add little to what they are added to, and biases are mostly above zero, or the
    roundings of all layers pile up: in bfloat16, to round before the bias too, as some kernels do, then changes the
    outputs by 2% of the largest, which is all that a judge allows; by 1% so. Each layer still decides over 10%."""
    import torch
    from torch.fx.experimental import optimization
    for name, norm in network.named_modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.momentum, norm.eps = 1.0, 0.1   # what hardly varies stays small
            ends_branch = residual and name.endswith(".bn2")
            norm.weight.uniform_(*((0.1, 0.25) if ends_branch else (0.3, 0.9)))
            norm.bias.uniform_(*((-0.1, 0.5) if residual else (-0.3, 0.3)))
    network.train()(torch.randn(8, 3, 64, 64))
    return _wrapped(optimization.fuse(network.eval()), lambda model, x: model(x))


def _resnet(_):
    import torchvision
    return _measured(torchvision.models.resnet18(weights=None, num_classes=32), residual=True)


def _mobilenet(version):
    import torchvision
    if version == 2:
        return _measured(torchvision.models.mobilenet_v2(weights=None, num_classes=32, width_mult=0.35))
    return _measured(torchvision.models.mobilenet_v3_small(weights=None, num_classes=32, width_mult=0.5))


# ---------------------------------------------------------------- transformers
def _ids(seed, batch, length):
    return np.random.RandomState(seed).randint(0, VOCABULARY, (batch, length)).astype(np.int64)


def ids(seed, batch, length, dtype):
    return {"ids": _ids(seed, batch, length)}


def masked_ids(seed, batch, length, dtype):
    """Each text ends a little earlier than the one before."""
    ends = length - 3 * np.arange(batch)[:, None]
    return {"ids": _ids(seed, batch, length), "mask": (np.arange(length) < ends).astype(np.int64)}


def _biased(model):
    """Biases that are not 0, factors that are not 1."""
    import torch
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def _vit(attention):
    from transformers import ViTConfig, ViTForImageClassification
    config = ViTConfig(hidden_size=WIDTH, num_hidden_layers=3, num_attention_heads=HEADS, intermediate_size=2 * WIDTH,
                       image_size=32, patch_size=8, num_labels=32, initializer_range=0.05,
                       attn_implementation=attention)
    return _wrapped(_biased(ViTForImageClassification(config)), lambda model, x: model(pixel_values=x).logits)


def _bert(attention):
    from transformers import BertConfig, BertForMaskedLM
    config = BertConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS,
                        intermediate_size=2 * WIDTH, max_position_embeddings=LONGEST, initializer_range=0.05,
                        attn_implementation=attention)
    return _wrapped(_biased(BertForMaskedLM(config)),
                    lambda model, ids, mask: model(input_ids=ids, attention_mask=mask).logits)


def _gpt2(attention):
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=LONGEST, n_embd=WIDTH, n_layer=2, n_head=HEADS,
                        initializer_range=0.05, attn_implementation=attention)
    return _wrapped(_biased(GPT2LMHeadModel(config)), lambda model, ids: model(input_ids=ids, use_cache=False).logits)


def _llama(attention):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
                         num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, max_position_embeddings=LONGEST,
                         initializer_range=0.05, attn_implementation=attention)
    return _wrapped(_biased(LlamaForCausalLM(config)), lambda model, ids: model(input_ids=ids, use_cache=False).logits)


FAMILIES = {
    "resnet": Family(_resnet, images, "y", {"opset18": (18, None), "opset23": (23, None)}, True),
    "mobilenet": Family(_mobilenet, images, "y", {"v2": (18, 2), "v3": (23, 3)}, True),
    "vit": Family(_vit, patches, "y", TRANSFORMER_FORMS, True),
    "bert": Family(_bert, masked_ids, "logits", TRANSFORMER_FORMS, False),
    "gpt2": Family(_gpt2, ids, "logits", TRANSFORMER_FORMS, False),
    "llama": Family(_llama, ids, "logits", TRANSFORMER_FORMS, False),
}
# ONNX Runtime takes no table of RotaryEmbedding with one row for several texts, which the exporter writes here.
REFUSED = ("llama-attention-dynamic-float32",)


def _variants():
    for (name, family), shapes, kind in itertools.product(FAMILIES.items(), ("static", "dynamic"), TYPES):
        for form in family.forms:
            full = "-".join((name, form, shapes, kind))
            if full.startswith("resnet-opset18") and kind == "bfloat16":
                continue   # it would be of another opset
            yield full, Variant(family, form, shapes == "dynamic", kind, kind == "bfloat16" or full in REFUSED)


VARIANTS = dict(_variants())


# --------------------------------------------------------------------- export
def tensor(array):
    """As numpy's; it has no bfloat16 of its own that PyTorch would know."""
    import torch
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array(tensor):
    import torch
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def export(module, operands, target, opset, inputs, outputs, dynamic=None):
    import torch
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, operands, dynamo=True, opset_version=opset, input_names=inputs,
                                    output_names=outputs, dynamic_shapes=dynamic, verbose=False)
        program.save(str(target), external_data=False)


def _dynamic_shapes(variant, count):
    import torch
    sizes = {0: torch.export.Dim("batch", min=1, max=8)}
    if not variant.family.images:
        sizes[1] = torch.export.Dim("seq", min=2, max=LONGEST)
    return ((dict(sizes),) * count,)   # all operands are one variadic parameter


def make(variant, target, eager_target):
    """Writes the model; `eager_target(seed)` names the file of a seed's outputs."""
    import torch
    torch.manual_seed(1234)
    _, given = variant.family.forms[variant.form]
    with torch.no_grad():
        module = variant.family.network(given).eval().to(getattr(torch, variant.type))
        seen = variant.family.feeds(0, 2, 16, TYPES[variant.type])
        shapes = _dynamic_shapes(variant, len(seen)) if variant.dynamic else None
        operands = tuple(map(tensor, seen.values()))
        # Grouped heads reach the Attention operator as they are, with a mask too.
        grouped = {"TRANSFORMERS_SDPA_FORCE_GQA": "1"} if variant.form == "attention" else {}
        with unittest.mock.patch.dict(os.environ, grouped):
            export(module, operands, target, variant.opset, list(seen), [variant.family.output], shapes)
        if variant.eager:
            for seed in EAGER_SEEDS:
                result = module(*map(tensor, variant.feeds(seed).values()))
                np.savez(eager_target(seed), **{variant.family.output: array(result)})
