#!/usr/bin/env python3
"""What PyTorch reaches in the same layouts on one GPU: processes under MPS and time-sliced, and one
process with the whole batch; eager, as CUDA graphs, and compiled in CUDA graphs.

The processes train independently: no gradients are exchanged, which flatters PyTorch. Writes
pytorch_mps.json beside the figures' raw files; --python is a Python with torch and torchvision."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from placements import BATCH, HERE, MPS, SLICED, WHOLE, RawFile, environment_of


class MpsDaemon:
    """A private MPS daemon for as long as it is entered; `environment` ties a process to it."""

    def __init__(self):
        # Short: the pipes' paths may have 107 bytes.
        self.folder = tempfile.TemporaryDirectory(prefix="mps-", dir="/tmp")
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": f"{self.folder.name}/pipe",
                            "CUDA_MPS_LOG_DIRECTORY": f"{self.folder.name}/log"}

    def __enter__(self) -> "MpsDaemon":
        for path in self.environment.values():
            pathlib.Path(path).mkdir()
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True, timeout=30,
                       env={**os.environ, **self.environment})
        if "CUDA_VISIBLE_DEVICES" in os.environ:
            # A daemon's clients count the GPUs that it was shown.
            self.environment["CUDA_VISIBLE_DEVICES"] = "0"
        return self

    def __exit__(self, *unused) -> None:
        subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", timeout=30, check=False,
                       env={**os.environ, **self.environment}, stdout=subprocess.DEVNULL)
        self.folder.cleanup()


class Workers:
    """So many worker processes that are ready; they end with it."""

    def __init__(self, options, count: int, batch: int, mode: str, environment: dict[str, str]):
        command = [options.python, str(HERE / "pytorch_worker.py"), "--model", options.model,
                   "--size", str(options.size), "--batch", str(batch), "--mode", mode,
                   "--device", options.device]
        self.errors = tempfile.TemporaryFile()
        self.processes = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True,
                                           stdout=subprocess.PIPE, stderr=self.errors,
                                           env={**os.environ, **environment})
                          for _ in range(count)]

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *unused) -> None:
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def answers(self) -> list[dict]:
        found = []
        for process in self.processes:
            line = process.stdout.readline()
            if not line:
                self.errors.seek(0)
                words = self.errors.read().decode(errors="replace").strip().splitlines()
                raise RuntimeError(words[-1] if words else "a worker ended without a message")
            found.append(json.loads(line))
        return found

    def measure(self, seconds: float) -> float:
        for process in self.processes:
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        return sum(answer["images_per_second"] for answer in self.answers())


def measure(options, raw: RawFile, series: str, count: int, batch: int, mode: str,
            environment: dict[str, str]) -> None:
    key = {"series": series, "x": mode, "panel": "", "model": options.model, "size": options.size,
           "global_batch": count * batch, "processes": count}
    try:
        with Workers(options, count, batch, mode, environment) as workers:
            versions = workers.answers()[0]
            for round_number in range(options.rounds):
                rate = workers.measure(options.seconds)
                raw.add(key, {"round": round_number, "images_per_second": rate, **versions})
                print(f"{series}, {mode}: {rate:.0f} img/s", file=sys.stderr, flush=True)
    except (RuntimeError, OSError, ValueError) as error:
        raw.add(key, {"round": 0, "error": str(error)})
        print(f"{series}, {mode}: {error}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, help="of a process; default the figures'")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--modes", nargs="+", default=["eager", "graph", "compile-graph"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("accdp"))
    options = parser.parse_args()
    options.batch = options.batch or BATCH.get(options.size, 64)
    return options


def main() -> None:
    options = parse()
    figure = {"number": "PyTorch", "kind": "bars", "x_label": "mode", "y_label": "images/s",
              "title": f"PyTorch, {options.model}, {options.size} px: {options.ranks} processes of "
                       f"{options.batch} on one GPU, without gradient exchange",
              "fields": {"": "images_per_second"}, "relative_to": None, "precision": "bf16",
              "rounds": options.rounds, "seconds": options.seconds}
    raw = RawFile(options.out, "pytorch_mps", figure, environment_of(None))
    one = f"one process of {options.batch}"
    for mode in options.modes:
        measure(options, raw, one, 1, options.batch, mode, {})
        measure(options, raw, WHOLE.replace("rank", "process"), 1, options.ranks * options.batch,
                mode, {})
        measure(options, raw, SLICED, options.ranks, options.batch, mode, {})
    if options.device == "cuda":
        try:
            with MpsDaemon() as daemon:
                for mode in options.modes:
                    measure(options, raw, MPS, options.ranks, options.batch, mode,
                            daemon.environment)
        except (OSError, subprocess.SubprocessError) as error:
            sys.exit(f"MPS's daemon cannot be started: {error}")
    print(f"{raw.path}: plot.py draws it")


if __name__ == "__main__":
    main()
