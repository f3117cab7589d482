#!/usr/bin/env python3
"""What the kernels of a training step took and moved, of Nsight Compute's counters.

    ncu --nvtx --nvtx-include "first step/" -o step \\
      --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum \\
      tandem bench CONFIG --rates-only --seconds 0.1
    ncu -i step.ncu-rep --csv --page raw --print-nvtx-rename kernel > step.csv
    benchmarks/kernel_table.py step.csv --out step_ncu.csv     # a line a kernel
    benchmarks/kernel_table.py step_ncu.csv                    # the table again

Prints the kernels by kind: their number, microseconds, GB and TB/s. Each kernel ran by itself, and
with the L2 cache emptied before it, unless ncu was told otherwise: sums are more than a step takes."""

import argparse
import csv
import pathlib
import re
import sys
from typing import NamedTuple, NoReturn

UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "byte": 1e-6, "Kbyte": 1e-3, "Mbyte": 1.0, "Gbyte": 1e3}
COUNTERS = ["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"]
FIELDS = ["layer and kernel", "block", "grid", "us", "MB read", "MB written"]
LIBRARIES = re.compile("nvjet|cutlass|xmma|gemm|cudnn|convolve|wgrad|dgrad|fprop|sm[89]0_|split[Kk]|nhwc")
OWN = re.compile(r"tandem::(?:[\w<>]+::)*(\w+)")


class Kernel(NamedTuple):
    name: str
    block: str
    grid: str
    microseconds: float
    read: float  # MB
    written: float

    @property
    def kind(self) -> str:
        kernel = self.name.rpartition("/")[2]
        own = OWN.search(kernel)
        if own:
            return own[1]
        return "products and what adds up their parts" if LIBRARIES.search(kernel) else kernel


def read(path: pathlib.Path) -> list[Kernel]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if rows and FIELDS[0] in rows[0]:
        return [Kernel(row[FIELDS[0]], row["block"], row["grid"], *(float(row[field]) for field in FIELDS[3:]))
                for row in rows]
    missing = [name for name in ["Kernel Name", *COUNTERS] if not rows or name not in rows[0]]
    if missing:
        fail(path, f"no column '{missing[0]}'; run ncu with the metrics that --help names")
    units, kernels = rows[0], []  # ncu's first line
    unknown = [units[name] for name in COUNTERS if units[name] not in UNITS]
    if unknown:
        fail(path, f"unknown unit '{unknown[0]}'; known are {', '.join(UNITS)} (ncu --print-units base)")
    for row in rows[1:]:
        values = [float(row[name].replace(",", "")) * UNITS[units[name]] for name in COUNTERS]
        name = row["Kernel Name"]
        # The layer alone, where it says one.
        name = name.removeprefix("first step/") if name.count("/") > 1 else name
        kernels.append(Kernel(name[:90], row["Block Size"], row["Grid Size"], *values))
    return kernels


def fail(path: pathlib.Path, what: str) -> NoReturn:
    sys.exit(f"kernel_table.py: {path}: {what}")


def write(kernels: list[Kernel], path: pathlib.Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(FIELDS)
        lines.writerows([*kernel[:3], *(round(value, 3) for value in kernel[3:])] for kernel in kernels)


def line(name: str, kernels: list[Kernel]) -> str:
    microseconds = sum(kernel.microseconds for kernel in kernels)
    megabytes = sum(kernel.read + kernel.written for kernel in kernels)
    rate = megabytes / microseconds if microseconds else 0.0
    return f"| {name} | {len(kernels)} | {microseconds:.0f} | {megabytes / 1e3:.2f} | {rate:.2f} |"


def table(kernels: list[Kernel]) -> str:
    kinds: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        kinds.setdefault(kernel.kind, []).append(kernel)
    longest = sorted(kinds.items(), key=lambda kind: -sum(kernel.microseconds for kernel in kind[1]))
    return "\n".join(["| kernels | number | us | GB | TB/s |", "| --- | --- | --- | --- | --- |",
                      *(line(name, those) for name, those in longest), line("all", kernels)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, help="of ncu, or of --out")
    parser.add_argument("--out", type=pathlib.Path, help="writes a line a kernel")
    options = parser.parse_args()
    kernels = read(options.file)
    if options.out:
        write(kernels, options.out)
    print(table(kernels))


if __name__ == "__main__":
    main()
