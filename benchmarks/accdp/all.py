#!/usr/bin/env python3
"""Measures all figures, and draws them where matplotlib is.

    benchmarks/accdp/all.py --program build/release/bin/tandem --quick --parallel 4 --out accdp

--parallel N: figures of one GPU run at the same time on N GPUs, one figure on each; the figures of
several GPUs run alone after them. Everything else goes to the figures' scripts."""

import argparse
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ON_ONE_GPU = [1, 3, 2, 6, 7, 8]  # the longest first
ON_SEVERAL = [4, 5]


def start(number: int, gpu: str | None, rest: list[str]) -> subprocess.Popen:
    environment = dict(os.environ)
    if gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    return subprocess.Popen([sys.executable, str(HERE / f"figure_{number}.py"), *rest],
                            env=environment)


def run_side_by_side(numbers: list[int], gpus: list[str], rest: list[str]) -> list[int]:
    """Numbers of the figures that failed."""
    waiting, failed = list(numbers), []
    running: dict[str, tuple[int, subprocess.Popen]] = {}
    while waiting or running:
        for gpu in gpus:
            if gpu not in running and waiting:
                number = waiting.pop(0)
                running[gpu] = (number, start(number, gpu, rest))
        for gpu, (number, process) in list(running.items()):
            if process.poll() is None:
                continue
            if process.returncode != 0:
                failed.append(number)
            del running[gpu]
        time.sleep(0.2)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parallel", type=int, default=1, metavar="GPUS")
    parser.add_argument("--only", type=int, nargs="+", metavar="FIGURE",
                        default=ON_ONE_GPU + ON_SEVERAL)
    parser.add_argument("--out", default="accdp")
    options, rest = parser.parse_known_args()
    rest += ["--out", options.out]
    alone = [number for number in ON_ONE_GPU if number in options.only]
    failed = []
    if options.parallel > 1:
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = seen.split(",") if seen else [str(i) for i in range(options.parallel)]
        failed += run_side_by_side(alone, gpus[:options.parallel], rest)
        alone = []
    for number in alone + [number for number in ON_SEVERAL if number in options.only]:
        if start(number, None, rest).wait() != 0:
            failed.append(number)
    for number in failed:
        print(f"figure {number} failed", file=sys.stderr)
    drawn = subprocess.run([sys.executable, str(HERE / "plot.py"), options.out, "--out",
                            options.out])
    return 1 if failed or drawn.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
