"""Models of other projects with random weights, exported to ONNX in a 16-bit type:
ResNet-50 and ViT-L/16 of torchvision, GPT-2 of transformers.

Each entry gives the module that PyTorch runs eagerly and the file that it was
exported to; the result is small on both sides."""
import warnings

import torch


def resnet50(small):
    import torchvision
    batch, edge = (2, 64) if small else (32, 224)
    net = torchvision.models.resnet50(weights=None)
    for m in net.modules():   # running statistics that are not 0 and 1
        if isinstance(m, torch.nn.BatchNorm2d):
            m.running_mean.uniform_(-0.2, 0.2)
            m.running_var.uniform_(0.5, 1.5)
    return net, torch.randn(batch, 3, edge, edge)


def vit_l(small):
    import torchvision
    if small:
        net = torchvision.models.VisionTransformer(image_size=64, patch_size=16, num_layers=2, num_heads=4,
                                                   hidden_dim=128, mlp_dim=256)
    else:
        net = torchvision.models.vit_l_16(weights=None)
    torch.nn.init.normal_(net.heads.head.weight, std=0.02)   # zeros otherwise, and so is the result
    batch, edge = (2, 64) if small else (32, 224)
    return net, torch.randn(batch, 3, edge, edge)


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
