#!/usr/bin/env python3
"""Compares Tandem's training step with PyTorch's on this machine's CPU.

Every contender runs in a process of its own, one after the other, in rounds, so that a slow minute
of the machine hits all of them. A run's figure is the median of its steps; a contender's is the
median of its runs, with the smallest and largest beside it. Writes all runs as JSON and prints a
table.

    cmake --preset release -DTANDEM_BUILD_BENCHMARKS=ON && cmake --build build/release
    benchmarks/compare_training_step.py --program build/release/bin/training_step \\
        --python VENV/bin/python --threads 2 --out results.json
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

from provenance import provenance, tandem_beside

HERE = pathlib.Path(__file__).parent
CASES = [  # model, size, batch, classes, steps
    ("resnet18", 32, 64, 10, 8),
    ("resnet20", 32, 128, 10, 15),
    ("shufflenet_v2_x1_0", 32, 128, 10, 10),
    ("resnet50", 224, 8, 1000, 3),
]


def contenders(args: argparse.Namespace, threads: int) -> dict[str, list[str]]:
    torch = [args.python, str(HERE / "training_step_torch.py")]
    commands = {
        "tandem": [args.program],
        "tandem, one-thread ranks": [
            "mpirun", "-n", str(threads), "--oversubscribe", "--bind-to", "none", args.program],
        "torch eager channels_last": torch,
        "torch eager contiguous": [*torch, "--format", "contiguous"],
    }
    if threads == 1:
        del commands["tandem, one-thread ranks"]
    if args.compile:
        commands["torch compiled channels_last"] = [*torch, "--compile"]
    return commands


def run(name: str, command: list[str], case: tuple, threads: int) -> dict:
    model, size, batch, classes, steps = case
    mine = 1 if "ranks" in name else threads
    environment = os.environ | {
        "OMP_NUM_THREADS": str(mine),
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    full = [*command, model, "--size", str(size), "--batch", str(batch), "--classes", str(classes),
            "--threads", str(mine), "--warmup", "2", "--steps", str(steps)]
    done = subprocess.run(full, capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(full)} failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1]) | {"contender": name}


def cpu_name() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="the built training_step")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch, torchvision")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="one model")
    parser.add_argument("--compile", action="store_true", help="run torch.compile too")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()

    runs = []
    for case in CASES:
        if args.only and case[0] != args.only:
            continue
        for round_ in range(args.rounds):
            for name, command in contenders(args, args.threads).items():
                print(f"\r{case[0]}: round {round_ + 1} of {args.rounds}: {name:<40}", end="",
                      file=sys.stderr, flush=True)
                runs.append(run(name, command, case, args.threads))
    print(file=sys.stderr)
    args.out.write_text(json.dumps(
        {**provenance(tandem_beside([args.program])), "cpu": cpu_name(),
         "cores": os.cpu_count(), "system": platform.platform(), "threads": args.threads,
         "runs": runs}, indent=1) + "\n")

    print("| model, px, batch | contender | img/s | lowest..highest | peak MiB |")
    print("| --- | --- | --- | --- | --- |")
    for case in CASES:
        for name in contenders(args, args.threads):
            mine = [r for r in runs if r["model"] == case[0] and r["contender"] == name]
            if not mine:
                continue
            rates = [r["global_batch"] / statistics.median(r["step_seconds"]) for r in mine]
            peak = statistics.median(r["peak_kib"] for r in mine) / 1024
            print(f"| {case[0]}, {case[1]}, {case[2]} | {name} | {statistics.median(rates):.1f} | "
                  f"{min(rates):.1f}..{max(rates):.1f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
