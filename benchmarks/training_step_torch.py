#!/usr/bin/env python3
"""Times whole training steps of PyTorch on one fixed batch and prints one line of JSON.

The counterpart of training_step.cpp: forward, backward and SGD with momentum 0.9 and weight decay
1e-4 in f32 on a batch of noise, eager or compiled, in either memory format.
"""

import argparse
import json
import resource
import time

import torch
import torchvision


def cifar_resnet(depth: int) -> torch.nn.Module:
    """He et al. 2016, section 4.2, with projection shortcuts, as models/resnet20.toml has it."""
    from torchvision.models.resnet import BasicBlock, ResNet

    count = (depth - 2) // 6
    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10)
    model.inplanes = 16
    model.conv1 = torch.nn.Conv2d(3, 16, 3, padding=1, bias=False)
    model.bn1 = torch.nn.BatchNorm2d(16)
    model.maxpool = torch.nn.Identity()
    model.layer1 = model._make_layer(BasicBlock, 16, count)
    model.layer2 = model._make_layer(BasicBlock, 32, count, stride=2)
    model.layer3 = model._make_layer(BasicBlock, 64, count, stride=2)
    model.layer4 = torch.nn.Identity()
    model.fc = torch.nn.Linear(64, 10)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--format", choices=["channels_last", "contiguous"], default="channels_last")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.model in ("resnet20", "resnet32", "resnet56"):
        model = cifar_resnet(int(args.model[6:]))
    else:
        model = getattr(torchvision.models, args.model)(num_classes=args.classes)
    memory_format = {"channels_last": torch.channels_last,
                     "contiguous": torch.contiguous_format}[args.format]
    model = model.to(memory_format=memory_format).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.rand(args.batch, 3, args.size, args.size) * 2 - 1
    images = images.contiguous(memory_format=memory_format)
    labels = torch.arange(args.batch) % args.classes
    run_model = torch.compile(model) if args.compile else model

    def step() -> float:
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(run_model(images), labels)
        loss.backward()
        optimizer.step()
        loss.item()
        return time.perf_counter() - start

    for _ in range(args.warmup):
        step()
    seconds = [round(step(), 6) for _ in range(args.steps)]
    print(json.dumps({
        "engine": f"torch {'compiled' if args.compile else 'eager'} {args.format}",
        "model": args.model, "size": args.size, "global_batch": args.batch, "ranks": 1,
        "threads": args.threads, "torch": torch.__version__,
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "step_seconds": seconds,
    }))


if __name__ == "__main__":
    main()
