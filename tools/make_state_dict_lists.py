#!/usr/bin/env python3
"""Makes tests/support/torchvision_state_dicts.json: what torchvision's state dicts hold.

Names, dtypes and shapes of every tensor of each model of the zoo that torchvision has, as many
classes as ImageNet. No values. Needs torch and torchvision.

    python3 tools/make_state_dict_lists.py tests/support/torchvision_state_dicts.json
"""

import json
import pathlib
import sys

import torch
import torchvision
from torchvision.models.resnet import Bottleneck, ResNet

MODELS = [
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
    "mobilenet_v2",
    "efficientnet_b0",
]
DTYPES = {torch.float32: "f32", torch.int64: "i64"}


def modules(model):
    """Module -> "tensor dtype shape, ..." in the order of the state dict."""
    lists = {}
    for name, tensor in model.state_dict().items():
        module, part = name.rsplit(".", 1)
        shape = "x".join(str(extent) for extent in tensor.shape) or "scalar"
        lists.setdefault(module, []).append(f"{part} {DTYPES[tensor.dtype]} {shape}")
    return {module: ", ".join(parts) for module, parts in lists.items()}


def main():
    with torch.device("meta"):
        models = {name: getattr(torchvision.models, name)() for name in MODELS}
        # Not in torchvision by name, but a model of its class.
        models["resnet26"] = ResNet(Bottleneck, [2, 2, 2, 2])
    head = {
        "script": "tools/make_state_dict_lists.py",
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "models": {name: modules(model) for name, model in sorted(models.items())},
    }
    pathlib.Path(sys.argv[1]).write_text(json.dumps(head, indent=0) + "\n")


if __name__ == "__main__":
    main()
