#!/usr/bin/env python3
"""Times JPEG bytes -> random-resized crop to 224 -> flip -> normalised floats on one core: Tandem's
(input_pipeline_benchmark) and torchvision's (decode_jpeg + v2 transforms), in turns, on the same
files, which both hold in memory. Milliseconds of CPU time a sample; medians and quartiles.

  benchmarks/input_pipeline.py build/ci/bin/input_pipeline_benchmark IMAGES [--out FILE.json]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2


def torch_times(files, transform):
    begin = time.process_time()
    for file in files:
        decode_jpeg(file, mode=ImageReadMode.RGB)
    middle = time.process_time()
    for file in files:
        transform(decode_jpeg(file, mode=ImageReadMode.RGB))
    end = time.process_time()
    return {"torchvision whole_decode": (middle - begin) / len(files) * 1e3,
            "torchvision training_sample": (end - middle) / len(files) * 1e3}


def tandem_times(binary, images, count):
    done = subprocess.run(
        [binary, "--benchmark_format=json", "--benchmark_min_time=0.2"], check=True,
        env=dict(os.environ, TANDEM_IMAGES=str(images)), capture_output=True, text=True)
    return {"tandem " + run["name"]: run["cpu_time"] / count
            for run in json.loads(done.stdout)["benchmarks"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {arguments.core})
    torch.set_num_threads(1)
    paths = sorted(arguments.images.rglob("*.jpg"))
    files = [read_file(str(path)) for path in paths]
    transform = v2.Compose([
        v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)])
    torch_times(files[:50], transform)  # warm
    rounds = []
    for _ in range(arguments.rounds):
        rounds.append(torch_times(files, transform) |
                      tandem_times(arguments.binary, arguments.images, len(files)))
    summary = {}
    for name in rounds[0]:
        times = [one[name] for one in rounds]
        low, median, high = statistics.quantiles(times, n=4)
        summary[name] = {"median_ms": median, "quartiles_ms": [low, high], "best_ms": min(times)}
        print(f"{name:32} median {median:.3f} ms  quartiles {low:.3f} to {high:.3f}  "
              f"best {min(times):.3f}")
    for name, above, below in (
            ("speed-up over torchvision", "torchvision training_sample", "tandem training_sample"),
            ("sample / partial decode", "tandem training_sample", "tandem partial_decode")):
        ratios = sorted(one[above] / one[below] for one in rounds)
        summary[name] = {"median": statistics.median(ratios), "least": ratios[0],
                         "most": ratios[-1]}
        print(f"{name:32} median {statistics.median(ratios):.2f}  "
              f"least {ratios[0]:.2f}  most {ratios[-1]:.2f}")
    if arguments.out:
        versions = {"torch": torch.__version__, "torchvision": torchvision.__version__}
        arguments.out.write_text(json.dumps(
            {"files": len(files), "versions": versions, "summary": summary, "rounds": rounds},
            indent=1) + "\n")


if __name__ == "__main__":
    main()
