"""ResNet at a quarter of its width, for bundles that must stay small: as models.py's
exports in all else. NARROW names them: resnet-narrow-FORM-SHAPES-TYPE."""
import dataclasses
import tempfile
from pathlib import Path

import families
import models
import toolkit

NARROW = ("resnet-narrow-opset18-static-float32", "resnet-narrow-opset23-dynamic-float16",
          "resnet-narrow-opset23-static-bfloat16")
SEED = families.EAGER_SEEDS[0]   # of the feeds that it is judged by


def _network(_):
    import torch
    from torchvision.models.resnet import BasicBlock, ResNet

    class Narrow(ResNet):
        def _make_layer(self, block, planes, *rest, **named):
            return super()._make_layer(block, planes // 4, *rest, **named)

    made = Narrow(BasicBlock, [2, 2, 2, 2], num_classes=32)
    made.fc = torch.nn.Linear(512 // 4, 32)
    return families._measured(made, residual=True)


def get(name, folder):
    """As models.get, but the files go to `folder`; and what is right for the feeds of SEED."""
    variant = families.VARIANTS[name.replace("-narrow-", "-")]
    variant = dataclasses.replace(variant, family=dataclasses.replace(variant.family, network=_network))
    path = Path(folder) / (name + ".onnx")
    with tempfile.TemporaryDirectory() as scratch:
        eager = Path(scratch) / "eager.npz"
        families.make(variant, path, lambda seed: eager)
        right = toolkit.load_arrays(eager) if variant.eager else toolkit.run_onnxruntime(path, variant.feeds(SEED))
    return models.Model(name, path, variant.feeds, variant.flags, families.TOLERANCES[variant.type]), right
