#!/usr/bin/env python3
"""Makes tests/graph/torch_*.json: what PyTorch computes for models of the zoo.

Each file holds the logits, the loss, the running statistics and samples of every gradient of one
training step in double precision. Neither weights nor images are stored: both sides compute them
from names (see `uniform`). Needs torch and torchvision.

    python3 tools/make_reference_tensors.py tests/graph
"""

import json
import math
import pathlib
import sys

import numpy
import torch
import torchvision
from torch import nn

SAMPLES = 8
MASK = (1 << 64) - 1


def uniform(name, count):
    """Numbers in [-1, 1): 24 bits of SplitMix64's finaliser of FNV-1a(name) + index."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & MASK
    x = numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(seed)
    x ^= x >> numpy.uint64(30)
    x *= numpy.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> numpy.uint64(27)
    x *= numpy.uint64(0x94D049BB133111EB)
    x ^= x >> numpy.uint64(31)
    return (x >> numpy.uint64(40)).astype(numpy.float64) / 2.0**23 - 1.0


def set_parameter(name, tensor):
    """Values in Tandem's order: convolutions KRSC."""
    values = uniform(name, tensor.numel())
    if tensor.dim() >= 2:
        values *= math.sqrt(6.0 / (tensor.numel() // tensor.shape[0]))
    elif name.endswith(".weight"):
        # A small last normalisation of each bottleneck keeps deep models well conditioned.
        values = (0.3 if ".bn3." in name else 1.0) + 0.2 * values
    else:
        values *= 0.2
    values = torch.from_numpy(values.astype(numpy.float32).astype(numpy.float64))
    if tensor.dim() == 4:
        k, c, r, s = tensor.shape
        values = values.reshape(k, r, s, c).permute(0, 3, 1, 2)
    tensor.copy_(values.reshape(tensor.shape))


def flat(tensor):
    if tensor.dim() == 4:
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.reshape(-1)


class CifarResNet(nn.Module):
    """He et al. 2016, section 4.2, with projection shortcuts, of torchvision's blocks."""

    def __init__(self, blocks, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        inside = 16
        for stage, width in enumerate((16, 32, 64), start=1):
            layers = []
            for index in range(blocks):
                stride = 2 if stage > 1 and index == 0 else 1
                shortcut = None
                if stride != 1 or inside != width:
                    shortcut = nn.Sequential(
                        nn.Conv2d(inside, width, 1, stride, bias=False), nn.BatchNorm2d(width)
                    )
                layers.append(
                    torchvision.models.resnet.BasicBlock(inside, width, stride, shortcut)
                )
                inside = width
            setattr(self, f"layer{stage}", nn.Sequential(*layers))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def summary(tensor):
    values = flat(tensor.detach())
    count = values.numel()
    indices = sorted({i * (count - 1) // (SAMPLES - 1) for i in range(SAMPLES)})
    return {
        "norm": float(values.norm()),
        "indices": indices,
        "values": [float(values[i]) for i in indices],
    }


def record(model, name, shape, smoothing, gradient_tolerance=1e-3):
    batch, size, channels, classes = shape
    model = model.double().train()
    with torch.no_grad():
        for parameter, tensor in model.named_parameters():
            set_parameter(parameter, tensor)
    images = 1.5 * uniform("images", batch * size * size * channels)
    images = images.astype(numpy.float32).astype(numpy.float64)
    images = torch.from_numpy(images).reshape(batch, size, size, channels).permute(0, 3, 1, 2)
    labels = torch.tensor([3 * n % classes for n in range(batch)])
    logits = model(images)
    loss = nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing)
    loss.backward()
    return {
        "script": "tools/make_reference_tensors.py",
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "model": name,
        "batch": batch,
        "size": size,
        "channels": channels,
        "classes": classes,
        "label_smoothing": smoothing,
        "gradient_tolerance": gradient_tolerance,
        "loss": loss.item(),
        "logits": [float(v) for v in flat(logits.detach())],
        "gradients": {n: summary(p.grad) for n, p in model.named_parameters()},
        "buffers": {
            n: summary(b) for n, b in model.named_buffers() if not n.endswith("num_batches_tracked")
        },
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    made = [
        record(CifarResNet(1, 1, 10), "resnet8", (4, 28, 1, 10), 0.0),
        record(CifarResNet(3, 3, 10), "resnet20", (4, 32, 3, 10), 0.1),
        record(torchvision.models.resnet18(num_classes=10), "resnet18", (4, 64, 3, 10), 0.0),
        # PyTorch's own float gradients lie 2.5 % from its double ones here: some of the many ReLUs
        # fall on the other side of zero.
        record(torchvision.models.resnet50(num_classes=7), "resnet50", (4, 64, 3, 7), 0.0, 0.05),
    ]
    for reference in made:
        path = folder / f"torch_{reference['model']}.json"
        path.write_text(json.dumps(reference, indent=0) + "\n")
        print(path)


if __name__ == "__main__":
    main()
