#!/usr/bin/env python3
"""Makes tests/graph/torch_*.json: what PyTorch computes for models of the zoo.

Each file holds the logits, the loss, and of the running statistics and of every gradient the norm,
samples and two dot products (see `signs`), all of one training step in double precision, the logits of an evaluation after it, and the losses of ten steps
of SGD. Neither weights nor images are stored: both sides compute them from names (see `uniform`).
Dropout and stochastic depth are off. `float32` says how far PyTorch's own float results lie from
these. Needs torch and torchvision.

    python3 tools/make_reference_tensors.py tests/graph [MODEL...]
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
DOTS = 2
STEPS = 10
FLOOR = 0.3
SGD = {"lr": 5e-4, "momentum": 0.9, "weight_decay": 1e-4}
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


def set_parameter(name, tensor, shift, is_norm):
    """Values in Tandem's order: convolutions KRSC. `shift` is added to the biases of normalisations
    (see `Run`)."""
    values = uniform(name, tensor.numel())
    if tensor.dim() >= 2:
        values *= math.sqrt(6.0 / (tensor.numel() // tensor.shape[0]))
    elif name.endswith(".weight"):
        # A small last normalisation of each bottleneck keeps deep models well conditioned.
        values = (0.3 if ".bn3." in name else 1.0) + 0.2 * values
    else:
        values = 0.2 * values + (shift if is_norm else 0.0)
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


def signs(name, count, dot):
    """A vector of 1 and -1: a dot product with it sees an error anywhere in a tensor."""
    return torch.from_numpy(numpy.where(uniform(f"dot {dot} of {name}", count) < 0, -1.0, 1.0))


def summary(name, tensor):
    values = flat(tensor.detach())
    count = values.numel()
    indices = sorted({i * (count - 1) // (SAMPLES - 1) for i in range(SAMPLES)})
    return {
        "count": count,
        "norm": float(values.norm()),
        "indices": indices,
        "values": [float(values[i]) for i in indices],
        "dots": [float(values.double() @ signs(name, count, dot)) for dot in range(DOTS)],
    }


def make_images(batch, size, channels):
    images = 1.5 * uniform("images", batch * size * size * channels)
    images = images.astype(numpy.float32).astype(numpy.float64)
    return torch.from_numpy(images).reshape(batch, size, size, channels).permute(0, 3, 1, 2)


class Run:
    """A model with its made weights, in one precision.

    With `shift` 0 half of what a normalisation gives lies on either side of a ReLU's kink, and in a
    deep model some of it so near that float and double disagree about the side: PyTorch's own float
    gradients are then percents off. A shift of a few deviations keeps most of it away from kinks."""

    def __init__(self, make, shape, shift, smoothing, dtype):
        self.batch, self.size, self.channels, self.classes = shape
        self.smoothing = smoothing
        self.images = make_images(*shape[:3]).to(dtype)
        self.model = make().to(dtype).train()
        norms = {
            f"{name}.bias"
            for name, module in self.model.named_modules()
            if isinstance(module, nn.BatchNorm2d)
        }
        with torch.no_grad():
            for parameter, tensor in self.model.named_parameters():
                set_parameter(parameter, tensor, shift, parameter in norms)
        self.labels = torch.tensor([3 * n % self.classes for n in range(self.batch)])

    def forward(self):
        logits = self.model(self.images)
        loss = nn.functional.cross_entropy(logits, self.labels, label_smoothing=self.smoothing)
        return logits.detach(), loss

    def trajectory(self):
        """Losses of steps on the same images; leaves the model trained."""
        optimizer = torch.optim.SGD(self.model.parameters(), **SGD)
        losses = []
        for _ in range(STEPS):
            loss = self.forward()[1]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses


def step_of(run):
    logits, loss = run.forward()
    loss.backward()
    result = {
        "loss": loss.item(),
        "logits": [float(v) for v in flat(logits)],
        "gradients": {n: summary(n, p.grad) for n, p in run.model.named_parameters()},
        "buffers": {
            n: summary(n, b)
            for n, b in run.model.named_buffers()
            if not n.endswith("num_batches_tracked")
        },
    }
    run.model.eval()
    with torch.no_grad():
        result["evaluation_logits"] = [float(v) for v in flat(run.forward()[0])]
    run.model.train()
    return result


def largest_difference(a, b):
    scale = max(abs(v) for v in b)
    return max(abs(x - y) for x, y in zip(a, b)) / scale


def typical(gradient):
    return gradient["norm"] / math.sqrt(gradient["count"])


def gradient_difference(a, b):
    """As the test measures it: against the sample or a typical element of the tensor, whichever is
    larger, and at least a part of a typical element of the median tensor; dot products against the
    norm in the same way. (A shift whose effect the next normalisation takes away has a gradient of
    zero and leaves rounding alone.)"""
    floor = FLOOR * sorted(typical(g) for g in b.values())[len(b) // 2]
    worst = 0.0
    for name, wanted in b.items():
        for x, y in zip(a[name]["values"], wanted["values"]):
            worst = max(worst, abs(x - y) / max(abs(y), typical(wanted), floor))
        root = math.sqrt(wanted["count"])
        for x, y in zip(a[name]["dots"], wanted["dots"]):
            worst = max(worst, abs(x - y) / (root * max(typical(wanted), floor)))
    return worst


def record(make, name, shape, smoothing=0.0, gradient_tolerance=1e-3, shift=0.0):
    batch, size, channels, classes = shape
    def run(dtype):
        return Run(make, shape, shift, smoothing, dtype)

    exact = step_of(run(torch.float64))
    rounded = step_of(run(torch.float32))
    losses = run(torch.float64).trajectory()
    rounded_losses = run(torch.float32).trajectory()
    return {
        "script": "tools/make_reference_tensors.py",
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "model": name,
        "batch": batch,
        "size": size,
        "channels": channels,
        "classes": classes,
        "norm_shift": shift,
        "label_smoothing": smoothing,
        "gradient_tolerance": gradient_tolerance,
        "gradient_floor": FLOOR,
        "sgd": SGD,
        "losses": losses,
        "float32": {
            "logits": largest_difference(rounded["logits"], exact["logits"]),
            "evaluation_logits": largest_difference(
                rounded["evaluation_logits"], exact["evaluation_logits"]
            ),
            "gradients": gradient_difference(rounded["gradients"], exact["gradients"]),
            "losses": largest_difference(rounded_losses, losses),
        },
        **exact,
    }


def torchvision_model(name, **options):
    return lambda: getattr(torchvision.models, name)(**options)


def resnet26():
    blocks = torchvision.models.resnet.Bottleneck
    return torchvision.models.ResNet(blocks, [2, 2, 2, 2], num_classes=10)


def references():
    """Calls that make one file each, by model."""
    photo = (4, 64, 3, 10)
    return {
        "resnet8": lambda n: record(lambda: CifarResNet(1, 1, 10), n, (4, 28, 1, 10)),
        "resnet20": lambda n: record(lambda: CifarResNet(3, 3, 10), n, (4, 32, 3, 10), 0.1),
        "resnet18": lambda n: record(torchvision_model("resnet18", num_classes=10), n, photo),
        "resnet26": lambda n: record(resnet26, n, photo, shift=2.5),
        "resnet50": lambda n: record(
            torchvision_model("resnet50", num_classes=7), n, (4, 64, 3, 7), shift=2.5
        ),
        "shufflenet_v2_x1_0": lambda n: record(
            torchvision_model("shufflenet_v2_x1_0", num_classes=10), n, photo, shift=2.5
        ),
        "mobilenet_v2": lambda n: record(
            torchvision_model("mobilenet_v2", num_classes=10, dropout=0.0), n, photo, shift=3.0
        ),
        "efficientnet_b0": lambda n: record(
            torchvision_model(
                "efficientnet_b0", num_classes=10, dropout=0.0, stochastic_depth_prob=0.0
            ),
            n,
            photo,
        ),
    }


def write(reference, path):
    """JSON with a line for each key and for each tensor."""
    lines = []
    for key, value in reference.items():
        if key in ("gradients", "buffers"):
            inner = [f"{json.dumps(n)}: {json.dumps(t)}" for n, t in value.items()]
            lines.append(f"{json.dumps(key)}: {{\n" + ",\n".join(inner) + "\n}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    makers = references()
    for name in sys.argv[2:] or makers:
        reference = makers[name](name)
        path = folder / f"torch_{name}.json"
        write(reference, path)
        print(path, reference["float32"])


if __name__ == "__main__":
    main()
