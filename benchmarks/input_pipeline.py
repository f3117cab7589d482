#!/usr/bin/env python3
"""Times JPEG bytes -> random-resized crop to 224 -> flip -> normalised floats on one core: Tandem's
(input_pipeline_benchmark) and torchvision's (decode_jpeg + v2 transforms), in turns, on the same
files, which both hold in memory. Milliseconds of CPU time a sample; medians and quartiles. A raw
sample is what a GPU finishes: bytes, neither mirrored nor normalised. An augmented one has two
operations of RandAugment, an evaluated one is the middle of an image whose shorter side becomes 256.

  benchmarks/input_pipeline.py build/ci/bin/input_pipeline_benchmark IMAGES [--out FILE.json]
  ... --before OLDER_BINARY --no-torchvision    # two builds of Tandem alone
"""
import argparse
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import time

from provenance import provenance, tandem_beside

SAMPLES = ("training_sample", "raw_sample", "augmented_raw_sample", "evaluated_raw_sample")


class Torchvision:
    def __init__(self, paths):
        self.torch = importlib.import_module("torch")
        self.version = importlib.import_module("torchvision").__version__
        io = importlib.import_module("torchvision.io")
        v2 = importlib.import_module("torchvision.transforms.v2")
        self.torch.set_num_threads(1)
        self.decode = lambda file: io.decode_jpeg(file, mode=io.ImageReadMode.RGB)
        self.files = [io.read_file(str(path)) for path in paths]
        self.transform = v2.Compose([
            v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
            v2.ToDtype(self.torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)])
        self.times()  # warm

    def versions(self):
        return {"torch": self.torch.__version__, "torchvision": self.version}

    def times(self):
        begin = time.process_time()
        for file in self.files:
            self.decode(file)
        middle = time.process_time()
        for file in self.files:
            self.transform(self.decode(file))
        end = time.process_time()
        return {"torchvision whole_decode": (middle - begin) / len(self.files) * 1e3,
                "torchvision training_sample": (end - middle) / len(self.files) * 1e3}


def tandem_times(name, binary, images, count):
    done = subprocess.run(
        [binary, "--benchmark_format=json", "--benchmark_min_time=0.2"], check=True,
        env=dict(os.environ, TANDEM_IMAGES=str(images)), capture_output=True, text=True)
    return {f"{name} {run['name']}": run["cpu_time"] / count
            for run in json.loads(done.stdout)["benchmarks"]}


def summarised(rounds):
    summary = {}
    for name in rounds[0]:
        times = [one[name] for one in rounds]
        low, median, high = statistics.quantiles(times, n=4)
        summary[name] = {"median_ms": median, "quartiles_ms": [low, high], "best_ms": min(times)}
        print(f"{name:32} median {median:.3f} ms  quartiles {low:.3f} to {high:.3f}  "
              f"best {min(times):.3f}")
    pairs = [("speed-up over torchvision", "torchvision training_sample", "tandem training_sample")]
    for side in ("tandem", "before"):
        for sample in ("training_sample", "raw_sample"):  # of a box, as partial_decode
            pairs.append((f"{side} {sample} / partial decode", f"{side} {sample}",
                          f"{side} partial_decode"))
    for sample in ("partial_decode", *SAMPLES):
        pairs.append((f"before / now, {sample}", f"before {sample}", f"tandem {sample}"))
    for name, above, below in pairs:
        if above not in rounds[0]:
            continue
        ratios = sorted(one[above] / one[below] for one in rounds)
        summary[name] = {"median": statistics.median(ratios), "least": ratios[0],
                         "most": ratios[-1]}
        print(f"{name:42} median {statistics.median(ratios):.3f}  "
              f"least {ratios[0]:.3f}  most {ratios[-1]:.3f}")
    return summary


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("--before", help="input_pipeline_benchmark of an older build")
    parser.add_argument("--no-torchvision", action="store_true")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {arguments.core})
    paths = sorted(arguments.images.rglob("*.jpg"))
    torchvision = None if arguments.no_torchvision else Torchvision(paths)
    sides = {"tandem": arguments.binary}
    if arguments.before:
        sides["before"] = arguments.before
    rounds = []
    for _ in range(arguments.rounds):
        times = torchvision.times() if torchvision else {}
        for name, binary in sides.items():
            times |= tandem_times(name, binary, arguments.images, len(paths))
        rounds.append(times)
    summary = summarised(rounds)
    if arguments.out:
        facts = provenance(tandem_beside([arguments.binary]))
        facts["versions"] |= torchvision.versions() if torchvision else {}
        arguments.out.write_text(json.dumps(
            {**facts, "files": len(paths), "summary": summary, "rounds": rounds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
