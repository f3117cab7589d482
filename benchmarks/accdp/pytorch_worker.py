#!/usr/bin/env python3
"""One PyTorch process of pytorch_mps.py: makes a training step ready and measures it when told.

Says {"ready": true} on standard output, waits for a line on standard input, trains on one batch of
noise for some seconds and says what it reached, as JSON. It ends with its input."""

import argparse
import json
import sys
import time

import torch
import torchvision


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--mode", choices=["eager", "graph", "compile-graph"], default="graph")
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


class Step:
    """Forward, backward and SGD with momentum under bf16 autocast, channels_last."""

    def __init__(self, options):
        self.device = options.device
        self.graphed = options.mode != "eager"
        classes = 1000 if options.size > 64 else 10
        model = getattr(torchvision.models, options.model)(num_classes=classes)
        model = model.to(self.device).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9,
                                         weight_decay=1e-4, fused=self.device == "cuda")
        self.model = torch.compile(model) if options.mode == "compile-graph" else model
        self.loss = torch.nn.CrossEntropyLoss()
        images = torch.randn(options.batch, 3, options.size, options.size, device=self.device)
        self.images = images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, classes, (options.batch,), device=self.device)

    def run(self) -> None:
        # Inside a graph too: backward then writes gradients instead of adding to zeros.
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, dtype=torch.bfloat16, cache_enabled=not self.graphed):
            loss = self.loss(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()

    def ready(self):
        """What to call for a step: the step itself, or its captured graph."""
        if not self.graphed:
            return self.run
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(5):
                self.run()
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.run()
        return graph.replay


def main() -> None:
    options = parse()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    settle = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    step = Step(options).ready()
    for _ in range(10):
        step()
    settle()
    versions = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    print(json.dumps({"ready": True, **versions}), flush=True)
    for line in sys.stdin:
        seconds = float(line)
        began = time.monotonic()
        steps = 0
        while time.monotonic() - began < seconds:
            for _ in range(10 if options.device == "cuda" else 1):
                step()
                steps += 1
            settle()
        rate = steps * options.batch / (time.monotonic() - began)
        print(json.dumps({"images_per_second": rate, "steps": steps}), flush=True)


if __name__ == "__main__":
    main()
