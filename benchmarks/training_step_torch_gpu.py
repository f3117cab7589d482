#!/usr/bin/env python3
"""Times whole training steps of PyTorch on one GPU on one fixed batch that lies there, and prints
lines of JSON.

The counterpart of training_step_gpu.cpp: torchvision's model in channels_last, autocast to the
precision, cross-entropy, fused SGD with momentum 0.9 and weight decay 1e-4; with fp16 a GradScaler.
Modes:

    eager                    as it is
    graph                    the whole step, optimizer included, captured in one CUDA graph
    compile                  torch.compile of the model
    compile-graph            the same, and the whole step captured in one CUDA graph
    compile-max              torch.compile, mode max-autotune-no-cudagraphs
    compile-reduce-overhead  torch.compile, mode reduce-overhead: its own CUDA graphs

With --wait it reads commands from standard input, one line of JSON each, and answers each with one:
{"prepare": NAME, "model": ..., "mode": ...} makes a step ready, {"measure": NAME, "seconds": S}
measures it, {"drop": true} forgets all. A command that fails is answered with {"error": TEXT}.
"""

import argparse
import gc
import json
import math
import statistics
import sys
import time

import torch
import torchvision

# mode: torch.compile's mode or None, whether the whole step is captured
MODES = {
    "eager": (None, False),
    "graph": (None, True),
    "compile": ("default", False),
    "compile-graph": ("default", True),
    "compile-max": ("max-autotune-no-cudagraphs", False),
    "compile-reduce-overhead": ("reduce-overhead", False),
}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Step:
    """One training step, ready to run. `wrap`: what the model is put into, as DDP."""

    def __init__(self, model: str, size: int, batch: int, classes: int, precision: str, mode: str,
                 wrap=None):
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
        torch.backends.cudnn.allow_tf32 = precision != "fp32"
        torch.manual_seed(0)
        start = time.perf_counter()
        gc.collect()
        torch.cuda.empty_cache()
        allocated = torch.cuda.memory_allocated()
        reserved = torch.cuda.memory_reserved()
        free = torch.cuda.mem_get_info()[0]

        compile_mode, self.captured = MODES[mode]
        self.batch = batch
        self.dtype = DTYPES.get(precision)
        self.marks_steps = mode == "compile-reduce-overhead"
        module = getattr(torchvision.models, model)(num_classes=classes).cuda().train()
        module = module.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(
            module.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
        self.scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
        self.images = (torch.rand(batch, 3, size, size, device="cuda") * 2 - 1).contiguous(
            memory_format=torch.channels_last)
        self.labels = torch.arange(batch, device="cuda") % classes
        current = torch.cuda.current_stream()
        self.stream = torch.cuda.Stream() if self.captured else current
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.model = wrap(module) if wrap else module
        # Without DDP on a stream of PyTorch's choice: there the graph has a workspace of cuBLAS of its own,
        # not the warm-up's, which mode reduce-overhead in the same process would free.
        self.capture_stream = self.stream if wrap else None
        if compile_mode:
            self.model = torch.compile(self.model, mode=compile_mode)
        self.loss = None
        self.graph = None
        self.prepare()
        self.facts = {
            "engine": "torch", "model": model, "size": size, "batch": batch, "classes": classes,
            "precision": precision, "mode": mode,
            "prepare_seconds": time.perf_counter() - start,
            "allocated_bytes": torch.cuda.max_memory_allocated() - allocated,
            "reserved_bytes": torch.cuda.max_memory_reserved() - reserved,
            "device_bytes": free - torch.cuda.mem_get_info()[0],
        }

    def once(self) -> None:
        if self.marks_steps:
            torch.compiler.cudagraph_mark_step_begin()
        self.optimizer.zero_grad(set_to_none=True)
        # Casts of the weights may not be kept from one step to the next inside a graph.
        with torch.autocast("cuda", dtype=self.dtype, enabled=self.dtype is not None,
                            cache_enabled=not self.captured):
            loss = torch.nn.functional.cross_entropy(self.model(self.images), self.labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.loss = loss.detach()

    def prepare(self) -> None:
        self.warm_up()
        # Trying kernels takes memory that steps do not: the peak is that of what follows.
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.run = self.once
        if self.captured:
            self.optimizer.zero_grad(set_to_none=True)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.capture_stream):
                self.once()
            self.run = self.graph.replay
        for _ in range(5):
            self.run()
        torch.cuda.synchronize()

    def warm_up(self) -> None:
        """Eleven steps, as many as DDP asks for before a capture: its first ten time themselves by events.
        What is captured warms up on a side stream, with DDP on the one that DDP was built on and that is
        captured, since its nodes that accumulate gradients stay on that stream."""
        with torch.cuda.stream(self.stream):
            self.once()
            self.first_loss = self.loss.item()
            for _ in range(10):
                self.once()
        torch.cuda.current_stream().wait_stream(self.stream)
        torch.cuda.synchronize()

    def chunk(self, steps: int) -> float:
        """Seconds of one step, the mean over `steps` of them."""
        first = torch.cuda.Event(enable_timing=True)
        last = torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(steps):
            self.run()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) * 1e-3 / steps

    def chunks(self, seconds: float, agree=lambda value: value) -> tuple[list[float], int]:
        """Seconds of one step in chunks of about 25 ms, and the steps of a chunk. `agree` makes the times
        of several ranks one, so that all of them run as many steps."""
        steps = min(max(int(0.025 / agree(self.chunk(3))), 1), 1000)
        chunks, spent = [], 0.0
        while spent < seconds or len(chunks) < 3:
            chunks.append(agree(self.chunk(steps)))
            spent += steps * chunks[-1]
        return chunks, steps

    def measure(self, seconds: float) -> dict:
        """Steps in chunks, each timed by events."""
        chunks, steps = self.chunks(seconds)
        median = statistics.median(chunks)
        loss = self.loss.item()
        return {
            "images_per_second": self.batch / median, "milliseconds": 1e3 * median,
            "milliseconds_range": [1e3 * min(chunks), 1e3 * max(chunks)],
            "chunks": len(chunks), "steps": len(chunks) * steps,
            "first_loss": self.first_loss, "loss": loss if math.isfinite(loss) else None,
        }


def versions() -> dict:
    return {"torch": torch.__version__, "torchvision": torchvision.__version__,
            "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "gpu": torch.cuda.get_device_name()}


def obey(command: dict, steps: dict) -> dict:
    if "drop" in command:
        steps.clear()
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        return {"dropped": True}
    if "measure" in command:
        return steps[command["measure"]].measure(command["seconds"])
    name = command.pop("prepare")
    steps[name] = Step(**command)
    return steps[name].facts


def serve() -> None:
    # Each prepared step compiles the same code of torchvision's again.
    torch._dynamo.config.recompile_limit = 64
    print(json.dumps(versions()), flush=True)
    steps: dict[str, Step] = {}
    for line in sys.stdin:
        try:
            answer = obey(json.loads(line), steps)
        except Exception as error:  # of whatever kind: the caller goes on with the next
            text = str(error).strip().splitlines() or [""]
            answer = {"error": f"{type(error).__name__}: {text[0]}"[:400]}
        print(json.dumps(answer), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="resnet18")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="bf16")
    parser.add_argument("--mode", choices=list(MODES), default="eager")
    parser.add_argument("--seconds", type=float, default=1.0, help="time to measure for")
    parser.add_argument("--wait", action="store_true", help="obey commands from standard input")
    args = parser.parse_args()
    if args.wait:
        serve()
        return
    step = Step(args.model, args.size, args.batch, args.classes, args.precision, args.mode)
    print(json.dumps(step.facts | step.measure(args.seconds) | versions()))


if __name__ == "__main__":
    main()
