#!/usr/bin/env python3
"""How much of one GPU's memory whole runs take at the most, contexts and libraries included: `tandem train` with its
loader and evaluation, and beside it PyTorch's training step alone, its batch on the GPU.

    benchmarks/train_memory.py --program build/release/bin/tandem --out train_memory.json
    benchmarks/train_memory.py --program build/release/bin/tandem --only 'resnet18, 32' --modes eager --out memory.json

Each has the first GPU that is seen to itself, whose memory in use `nvidia-smi` tells some ten times a second: what comes
and goes in between is not seen, on either side. What was in use before is taken off. Both sides choose kernels by timing
first, Tandem with an empty cache of choices, and that counts. Prints a table of GiB."""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from gpu_sides import CASES, Case
from provenance import provenance
from weak_scaling import Case as RunCase

HERE = pathlib.Path(__file__).resolve().parent
MODES = ["eager", "graph", "compile", "compile-graph"]
TANDEM = "tandem train"


def memory_in_use() -> int:
    """MiB of the first GPU that is seen."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    said = subprocess.run(["nvidia-smi", "-i", gpu, "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                          check=True, capture_output=True, text=True, timeout=30)
    return int(said.stdout)


def end(process: subprocess.Popen) -> None:
    """With what it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def peak_of(command: list[str], timeout: float, cache: str) -> dict:
    """{"mib": ...}, or {"error": its last words}."""
    # As nvidia-smi counts them.
    environment = os.environ | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TANDEM_CACHE_DIR": cache}
    before, most, samples = memory_in_use(), 0, 0
    over = time.monotonic() + timeout
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            while process.poll() is None:
                most = max(most, memory_in_use())
                samples += 1
                if time.monotonic() > over:
                    return {"error": f"took longer than {timeout:.0f} s"}
                time.sleep(0.02)
        finally:
            end(process)
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    if process.returncode != 0:
        return {"error": f"ended with {process.returncode}: {lines[-1] if lines else 'no message'}"[:400]}
    return {"mib": most - before, "samples": samples}


def measure(options, case: Case, side: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "run.toml"
        config.write_text(RunCase(case.model, case.size, case.batch).config(case.precision, ranks=1))
        command = [options.program, "train", str(config), "--out", f"{folder}/run",
                   "--set", f"data.train_size={20 * case.batch}", "--set", f"data.test_size={2 * case.batch}"]
        if side != TANDEM:
            command = [options.python, str(HERE / "training_step_torch_gpu.py"), case.model, "--size", str(case.size),
                       "--batch", str(case.batch), "--classes", str(case.classes), "--precision", case.precision,
                       "--mode", side, "--seconds", "2"]
        return peak_of(command, options.timeout, f"{folder}/cache")


def table(runs: list[dict], sides: list[str]) -> str:
    lines = ["| model, px, batch, precision | " + " | ".join(sides) + " |", "| --- |" + " --- |" * len(sides)]
    for case in dict.fromkeys(Case(*run["case"]) for run in runs):
        found = {run["side"]: run for run in runs if Case(*run["case"]) == case}
        cells = [f"{found[side]['mib'] / 1024:.2f}" if "mib" in found.get(side, {}) else "–" for side in sides]
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def run(options, cases: list[Case], sides: list[str]) -> int:
    data = {**provenance(options.program), "runs": []}
    for case in cases:
        for side in sides:
            found = measure(options, case, side)
            print(f"{case}: {side}: {found}", flush=True)
            data["runs"].append({"case": list(case), "side": side} | found)
            options.out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(table(data["runs"], sides))
    return 1 if any("error" in each for each in data["runs"]) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the built tandem")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch, torchvision")
    parser.add_argument("--modes", default="eager,graph",
                        help=f"of PyTorch, with commas, may be empty: {', '.join(MODES)}")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="cases that have TEXT in 'model, px, batch, precision'")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for one run")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file")
    options = parser.parse_args()
    modes = [mode for mode in options.modes.split(",") if mode]
    if unknown := sorted(set(modes) - set(MODES)):
        parser.error(f"unknown modes: {', '.join(unknown)}; there are {', '.join(MODES)}")
    cases = [case for case in CASES if not options.only or any(text in str(case) for text in options.only)]
    if not cases:
        parser.error("--only leaves no case; they are\n  " + "\n  ".join(map(str, CASES)))
    if not options.out.resolve().parent.is_dir():
        parser.error(f"--out {options.out}: no such folder")
    try:
        memory_in_use()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        parser.error(f"nvidia-smi does not tell the memory in use of the first GPU that is seen: {error}")
    try:
        return run(options, cases, [TANDEM, *modes])
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
