"""Models of other projects with random weights, exported to ONNX in a 16-bit type:
ResNet-50 and ViT-L/16 of torchvision, GPT-2 of transformers.

Each entry gives the module that PyTorch runs eagerly and the file that it was
exported to; the result is small on both sides."""
import warnings

import torch


def images(batch, edge):
    """Smooth ones, so that results depend on them also after averaging."""
    return torch.nn.functional.interpolate(torch.randn(batch, 3, 7, 7), size=edge, mode="bilinear")


def resnet50(small):
    """As trained ones are: statistics of what really comes, and blocks that add little
    to what they pass on. Without that, rounding grows from block to block."""
    import torchvision
    net = torchvision.models.resnet50(weights=None)
    example = images(2, 64) if small else images(32, 224)
    for m in net.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.momentum = 1.0
        if isinstance(m, torchvision.models.resnet.Bottleneck):
            torch.nn.init.constant_(m.bn3.weight, 0.2)
    with torch.no_grad():
        net.train()(example[:8])
    return net, example


def vit_l(small):
    import torchvision
    if small:
        net = torchvision.models.VisionTransformer(image_size=64, patch_size=16, num_layers=2, num_heads=4,
                                                   hidden_dim=128, mlp_dim=256)
    else:
        net = torchvision.models.vit_l_16(weights=None)
    torch.nn.init.normal_(net.heads.head.weight, std=0.02)   # zeros otherwise, and so is the result
    return net, images(2, 64) if small else images(32, 224)


class LastLogits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits


def gpt2(small):
    from transformers import GPT2Config, GPT2LMHeadModel
    sizes = {"vocab_size": 1000, "n_embd": 128, "n_layer": 2, "n_head": 4} if small else {}
    config = GPT2Config(attn_implementation="sdpa", **sizes)
    batch, length = (2, 32) if small else (8, 512)
    return LastLogits(GPT2LMHeadModel(config)), torch.randint(0, config.vocab_size, (batch, length))


def export(make, dtype, path, small, opset):
    """(module, example input), both on the host and in `dtype`."""
    torch.manual_seed(1234)
    module, example = make(small)
    module = module.eval().to(dtype)
    if example.is_floating_point():
        example = example.to(dtype)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, (example,), dynamo=True, opset_version=opset, input_names=["x"],
                                    output_names=["y"], verbose=False)
        program.save(str(path), external_data=True)
    return module, example
