"""What comparisons of training steps on a GPU share: their cases, the processes that are measured in
turns, and the file of what they said."""

import argparse
import json
import os
import pathlib
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from provenance import provenance

HERE = pathlib.Path(__file__).parent


class Case(NamedTuple):
    model: str
    size: int
    batch: int
    precision: str = "bf16"

    @property
    def classes(self) -> int:
        return 1000 if self.size > 64 else 10

    def __str__(self) -> str:
        return f"{self.model}, {self.size}, {self.batch}, {self.precision}"


CASES = [
    Case("resnet50", 224, 256),
    Case("resnet50", 224, 256, "fp16"),
    Case("resnet18", 224, 256),
    Case("shufflenet_v2_x1_0", 224, 256),
    Case("mobilenet_v2", 224, 256),
    Case("efficientnet_b0", 224, 128),
    Case("resnet152", 224, 64),
    Case("resnet18", 32, 128),
    Case("resnet18", 32, 1024),
    Case("shufflenet_v2_x1_0", 32, 128),
]


class SideError(Exception):
    """What a side said when it failed, in one line."""


class Side:
    """A process that answers lines with lines of JSON."""

    def __init__(self, command: list[str]):
        self.errors = tempfile.TemporaryFile()
        self.rest = b""
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    def say(self, text: str) -> None:
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # It is gone: the answer says why.

    def answer(self, timeout: float) -> dict:
        """Its next line that is JSON; other lines are somebody's chatter."""
        deadline = time.monotonic() + timeout
        while True:
            while b"\n" in self.rest:
                line, self.rest = self.rest.split(b"\n", 1)
                if not line.startswith(b"{"):
                    continue
                found = json.loads(line)
                if "error" in found:
                    raise SideError(found["error"])
                return found
            if not self.selector.select(max(deadline - time.monotonic(), 0.0)):
                self.close()
                raise SideError(f"no answer within {timeout:.0f} s")
            data = self.process.stdout.read()
            if data == b"":
                raise SideError(self.last_words())
            self.rest += data or b""

    def last_words(self) -> str:
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return f"ended with {code}: {lines[-1] if lines else 'no message'}"[:400]

    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        if self.alive():
            self.process.kill()
        self.process.wait()


class Report:
    """The JSON file, written anew with each record."""

    def __init__(self, path: pathlib.Path, facts: dict):
        self.path = path
        self.data = {**provenance(), **facts, "prepared": [], "runs": [], "errors": []}
        self.write()

    def add(self, kind: str, case: Case, side: str, values: dict) -> None:
        self.data[kind].append({"case": list(case), "side": side} | values)
        self.write()

    def fail(self, case: Case, side: str, what: str, error: Exception) -> None:
        print(f"{case}: {side} failed to {what}: {error}", file=sys.stderr, flush=True)
        self.add("errors", case, side, {"what": what, "error": str(error)})

    def write(self) -> None:
        temporary = self.path.with_name(self.path.name + ".tmp")
        temporary.write_text(json.dumps(self.data, indent=1) + "\n")
        temporary.replace(self.path)


def tandem_command(program: list[str], case: Case) -> list[str]:
    return [*program, case.model, "--size", str(case.size), "--batch", str(case.batch), "--classes",
            str(case.classes), "--precision", case.precision, "--wait"]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="cases that have TEXT in 'model, px, batch, precision'")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement")
    parser.add_argument("--limit", type=float, default=1e9,
                        help="seconds after which no further case is begun")
    parser.add_argument("--patience", type=float, default=300.0,
                        help="seconds that a side may take to get ready")
    parser.add_argument("--out", type=pathlib.Path, help="the JSON file")
    parser.add_argument("--table", nargs="+", type=pathlib.Path, metavar="FILE",
                        help="print the table of these files and measure nothing")


def chosen_cases(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[Case]:
    if args.out is None:
        parser.error("--out is missing")
    cases = [case for case in CASES
             if not args.only or any(text in str(case) for text in args.only)]
    if not cases:
        parser.error("--only leaves no case; they are\n  " + "\n  ".join(map(str, CASES)))
    return cases


def table_of(table, files: list[pathlib.Path]) -> str:
    return table([json.loads(path.read_text()) for path in files])


def errors_of(reports: list[dict]) -> list[str]:
    return [f"not measured: {Case(*error['case'])}: {error['side']} failed to {error['what']}: "
            f"{error['error']}" for report in reports for error in report["errors"]]


def rates(runs: list[dict], case: Case, side: str) -> list[float]:
    return [run["images_per_second"] for run in runs
            if Case(*run["case"]) == case and run["side"] == side]


def thousands(values: list[float]) -> str:
    if not values:
        return "–"
    digits = 2 if max(values) < 10e3 else 1
    low, middle, high = (f"{value / 1e3:.{digits}f}" for value in
                         (min(values), statistics.median(values), max(values)))
    return f"{middle}k ({low}..{high})"


def tensor_gib(facts: dict) -> float:
    """Of the step's own tensors, as training_step_gpu tells of them."""
    return (facts["state_bytes"] + facts["activation_bytes"] + facts["batch_bytes"]) / 2**30
