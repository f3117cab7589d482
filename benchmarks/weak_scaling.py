#!/usr/bin/env python3
"""Measures weak scaling: the training step of one rank, and of several with the same batch each.

`tandem bench` on 1, 2, 4, ... ranks in turns, in rounds, so that a slow moment of the machine hits
all of them. A round's efficiency is its rate over as many times the rate of one rank of the same
round; the table shows medians, with the smallest and largest beside them. The batch is one of noise
in page-locked memory, uploaded each step, so that neither loaders nor storage count. Builds nothing:

    benchmarks/weak_scaling.py --program build/release/bin/tandem --ranks 1 2 4 --out scaling.json
    benchmarks/weak_scaling.py --table scaling.json               # only prints what is there

Variants are more settings of the run, measured in the same rounds:

    --variant bf16 parallel.gradient_compression=bf16 --variant ctas8 parallel.nccl_max_ctas=8 \\
    --variant direct parallel.exchange=direct parallel.taper_buckets=true
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from provenance import provenance, without_folders


class Case(NamedTuple):
    model: str
    size: int
    batch: int  # of a rank

    @staticmethod
    def parse(text: str) -> "Case":
        model, size, batch = text.split(",")
        return Case(model, int(size), int(batch))

    @property
    def classes(self) -> int:
        return 1000 if self.size > 64 else 10

    def config(self, precision: str, ranks: int) -> str:
        return f"""[model]
name = "{self.model}"
[data]
kind = "synthetic"
train_size = {2 * self.batch * ranks}
test_size = {ranks}
height = {self.size}
width = {self.size}
channels = 3
classes = {self.classes}
[train]
epochs = 1
global_batch = {self.batch * ranks}
precision = "{precision}"
[optimizer]
kind = "sgd"
lr = 0.01
momentum = 0.9
weight_decay = 1e-4
"""


def measure(options, case: Case, ranks: int, settings: list[str]) -> dict:
    """What `tandem bench` says, or {"error": its last words}."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "run.toml"
        config.write_text(case.config(options.precision, ranks))
        result = pathlib.Path(folder) / "bench.json"
        command = [options.mpirun, "-n", str(ranks), "--bind-to", "none", *options.mpirun_flag,
                   options.program, "bench", str(config), "--seconds", str(options.seconds),
                   "--json", str(result)]
        for setting in settings:
            command += ["--set", setting]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
        except subprocess.TimeoutExpired:
            return {"error": f"took longer than {options.timeout} s"}
        if done.returncode != 0 or not result.exists():
            words = (done.stderr.strip() or done.stdout.strip()).splitlines()
            return {"error": " / ".join(words[-3:])}
        record = json.loads(result.read_text())
    if "command" in record:
        record["command"] = without_folders(record["command"])
    # Every layer of every round would be most of the file.
    return {key: value for key, value in record.items() if not key.startswith("layer")}


def spread(values: list[float], form: str) -> str:
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}} ({low:{form}} to {high:{form}})"


def table(measurements: list[dict]) -> str:
    lines = ["| model, px, batch of a rank | variant | ranks | images/s | efficiency |"
             " exposed ms a step |", "| --- | --- | --- | --- | --- | --- |"]
    groups: dict[tuple, dict[int, dict]] = {}
    for each in measurements:
        groups.setdefault((each["case"], each["variant"], each["ranks"]), {})[each["round"]] = each
    for (case, variant, ranks), rounds in groups.items():
        single = groups.get((case, variant, 1), {})
        good = [m for m in rounds.values() if "error" not in m]
        if not good:
            lines.append(f"| {case} | {variant} | {ranks} | {next(iter(rounds.values()))['error']} |")
            continue
        rate = lambda m: m["step"]["images_per_second"]  # noqa: E731
        paired = [100 * rate(m) / (ranks * rate(single[m["round"]])) for m in good
                  if "error" not in single.get(m["round"], {"error": ""})]
        exposed = [1e3 * m["phases"]["communication_seconds"] for m in good
                   if "communication_seconds" in m["phases"]]
        lines.append(f"| {case} | {variant} | {ranks} | {spread([rate(m) for m in good], '.0f')} | "
                     f"{spread(paired, '.1f') + ' %' if paired else ''} | "
                     f"{spread(exposed, '.3f') if exposed else ''} |")
    return "\n".join(lines)


def tensor_bytes(memory: dict) -> int:
    """Of a rank: Tandem's arenas, or what PyTorch's allocator handed out."""
    if "allocated_bytes" in memory:
        return memory["allocated_bytes"]
    return memory["state_bytes"] + memory["activation_bytes"]


def memory_table(measurements: list[dict]) -> str:
    """Of each case's first measurement that tells its memory."""
    lines = ["| model, px, batch of a rank | variant | ranks | GiB of tensors of a rank |",
             "| --- | --- | --- | --- |"]
    memories: dict[tuple, dict] = {}
    for each in measurements:
        if "memory" in each:
            memories.setdefault((each["case"], each["variant"], each["ranks"]), each["memory"])
    lines += [f"| {case} | {variant} | {ranks} | {tensor_bytes(memory) / 2**30:.3f} |"
              for (case, variant, ranks), memory in memories.items()]
    return "\n".join(lines) if memories else ""


def print_tables(measurements: list[dict]) -> None:
    print(table(measurements))
    if memory := memory_table(measurements):
        print("\n" + memory)


def run_rounds(options, record: dict, variants, measure_one) -> None:
    """Measures every case, variant and number of ranks in turns, by measure_one(case, variant, ranks), and
    prints the tables. The record is written after each. Ends with code 1 where nothing was measured."""
    measurements = record["measurements"] = []
    for round_number in range(options.rounds):
        for case in options.case:
            for variant in variants:
                for ranks in options.ranks:
                    found = measure_one(case, variant, ranks)
                    measurements.append({"case": ", ".join(map(str, case)), "variant": variant,
                                         "ranks": ranks, "round": round_number, **found})
                    rate = found.get("step", {}).get("images_per_second")
                    told = found["error"] if rate is None else f"{rate:.0f} img/s"
                    print(f"round {round_number + 1}: {case.model} {variant} {ranks}: {told}",
                          file=sys.stderr, flush=True)
                    if options.out:
                        pathlib.Path(options.out).write_text(json.dumps(record, indent=1) + "\n")
    print_tables(measurements)
    if all("error" in each for each in measurements):
        sys.exit(1)


def run(options) -> None:
    variants = {"": []}
    for name, *settings in options.variant or []:
        variants[name] = settings
    record = {**provenance(options.program), "precision": options.precision,
              "seconds": options.seconds, "variants": variants}
    run_rounds(options, record, variants,
               lambda case, variant, ranks: measure(options, case, ranks, variants[variant]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bin/tandem")
    parser.add_argument("--case", type=Case.parse, nargs="+", metavar="MODEL,PX,BATCH",
                        default=[Case("resnet50", 224, 256), Case("resnet18", 32, 128)])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--variant", nargs="+", action="append", metavar=("NAME", "KEY=VALUE"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--mpirun-flag", action="append", default=[], help="for mpirun; repeatable")
    parser.add_argument("--out", help="JSON file, written after every measurement")
    parser.add_argument("--table", nargs="+", metavar="JSON", help="only print the files' tables")
    options = parser.parse_args()
    if options.table:
        for name in options.table:
            print_tables(json.loads(pathlib.Path(name).read_text())["measurements"])
        return
    run(options)


if __name__ == "__main__":
    main()
