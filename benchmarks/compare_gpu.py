#!/usr/bin/env python3
"""Compares Tandem's training step with PyTorch's on one GPU of this machine.

For each case both sides are made ready, each in a process of its own, and then measured in turns,
in rounds, so that a slow moment of the card hits both; the one that is not measured waits and runs
nothing. A side's figure is the median of its rounds, with the smallest and largest beside it. The
ratio is Tandem's figure over that of PyTorch's fastest mode (training_step_torch_gpu.py has them).

Every measurement is in the JSON file as soon as it is made: a run that is stopped keeps what it had.
A side that fails is noted, and the rest goes on. Builds nothing:

    cmake --preset release -DTANDEM_BUILD_BENCHMARKS=ON && cmake --build build/release
    benchmarks/compare_gpu.py --program build/release/bin/training_step_gpu --out results.json
    benchmarks/compare_gpu.py --table results.json more.json      # only prints what is there
"""

import argparse
import datetime
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

HERE = pathlib.Path(__file__).parent
MODES = ["eager", "graph", "compile", "compile-graph", "compile-max", "compile-reduce-overhead"]


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

    def __init__(self, path: pathlib.Path, args: argparse.Namespace):
        self.path = path
        self.data = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "card": query_card(), "commit": query_commit(), "versions": {},
            "rounds": args.rounds, "seconds": args.seconds, "modes": args.modes,
            "prepared": [], "runs": [], "errors": []}
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


def output_of(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=HERE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def query_card() -> dict:
    fields = ["name", "driver_version", "memory.total", "power.limit", "clocks.max.sm"]
    text = output_of(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"])
    if not text:
        return {"name": "unknown"}
    return dict(zip(fields, [value.strip() for value in text.splitlines()[0].split(",")]))


def query_commit() -> str | None:
    return output_of(["git", "describe", "--always", "--dirty", "--abbrev=12"])


class Comparison:
    def __init__(self, args: argparse.Namespace, report: Report):
        self.args = args
        self.report = report
        self.torch: Side | None = None

    def tandem_command(self, case: Case) -> list[str]:
        return [self.args.program, case.model, "--size", str(case.size), "--batch",
                str(case.batch), "--classes", str(case.classes), "--precision", case.precision,
                "--wait"]

    def torch_side(self) -> Side:
        """One process for all cases, for it takes seconds to start; another one if it died."""
        if self.torch is None or not self.torch.alive():
            self.torch = Side([self.args.python, self.args.torch_script, "--wait"])
            self.report.data["versions"] = self.torch.answer(self.args.patience)
        return self.torch

    def prepare_tandem(self, case: Case) -> Side | None:
        if not self.args.program:
            return None
        side = Side(self.tandem_command(case))
        try:
            self.report.add("prepared", case, "tandem", side.answer(self.args.patience))
            return side
        except SideError as error:
            self.report.fail(case, "tandem", "prepare", error)
            side.close()
            return None

    def prepare_torch(self, case: Case) -> list[str]:
        """The modes that are ready."""
        ready = []
        for mode in self.args.modes:
            command = case._asdict() | {"classes": case.classes, "prepare": mode, "mode": mode}
            try:
                side = self.torch_side()
                side.say(json.dumps(command))
                self.report.add("prepared", case, mode, side.answer(self.args.patience))
                ready.append(mode)
            except SideError as error:
                self.report.fail(case, mode, "prepare", error)
                if not self.torch or not self.torch.alive():
                    ready = []  # They died with it.
        return ready

    def measure(self, case: Case, round_: int, name: str, side: Side, words: str) -> bool:
        side.say(words)
        try:
            values = side.answer(10 * self.args.seconds + 60)
        except SideError as error:
            self.report.fail(case, name, "measure", error)
            return False
        self.report.add("runs", case, name, {"round": round_} | values)
        return True

    def compare(self, case: Case) -> None:
        tandem = self.prepare_tandem(case)
        modes = self.prepare_torch(case)
        seconds = self.args.seconds
        for round_ in range(self.args.rounds):
            if tandem and not self.measure(case, round_, "tandem", tandem, str(seconds)):
                tandem.close()
                tandem = None
            for mode in list(modes):
                words = json.dumps({"measure": mode, "seconds": seconds})
                if not self.measure(case, round_, mode, self.torch, words):
                    modes.remove(mode)
        if tandem:
            tandem.close()
        if self.torch and self.torch.alive():
            self.torch.say(json.dumps({"drop": True}))
            try:
                self.torch.answer(self.args.patience)
            except SideError as error:
                self.report.fail(case, "torch", "drop", error)
                self.torch.close()

    def run(self, cases: list[Case]) -> None:
        start = time.monotonic()
        for case in cases:
            spent = time.monotonic() - start
            if spent > self.args.limit:
                self.report.fail(case, "both", "begin", SideError(f"{spent:.0f} s are over"))
                continue
            self.compare(case)
            print(f"{time.monotonic() - start:4.0f} s | {row(self.report.data['runs'], [], case)}",
                  file=sys.stderr, flush=True)
        if self.torch:
            self.torch.close()


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


def memory(prepared: list[dict], case: Case, side: str) -> str:
    """GiB of the step's own tensors, and all that the process took on the card for it."""
    mine = [facts for facts in prepared if Case(*facts["case"]) == case and facts["side"] == side]
    if not mine:
        return "–"
    facts = mine[-1]
    if side == "tandem":
        own = facts["state_bytes"] + facts["activation_bytes"] + facts["batch_bytes"]
    else:
        own = facts["allocated_bytes"]
    return f"{own / 2**30:.2f} / {facts['device_bytes'] / 2**30:.2f}"


def row(runs: list[dict], prepared: list[dict], case: Case) -> str:
    tandem = rates(runs, case, "tandem")
    torch = {mode: rates(runs, case, mode) for mode in MODES}
    torch = {mode: values for mode, values in torch.items() if values}
    best = max(torch, key=lambda mode: statistics.median(torch[mode]), default=None)
    others = ", ".join(f"{mode} {statistics.median(values) / 1e3:.2f}k"
                       for mode, values in torch.items() if mode != best)
    ratio = "–"
    if tandem and best:
        ratio = f"{statistics.median(tandem) / statistics.median(torch[best]):.2f}"
        if len(tandem) == len(torch[best]):  # else rounds failed, and who belongs to whom is lost
            rounds = [ours / theirs for ours, theirs in zip(tandem, torch[best])]
            ratio += f" ({min(rounds):.2f}..{max(rounds):.2f})"
    fastest = f"{best} {thousands(torch[best])}" if best else "–"
    cells = [str(case), thousands(tandem), fastest, others or "–"]
    if prepared:
        cells += [memory(prepared, case, "tandem"), memory(prepared, case, best) if best else "–"]
    return f"| {' | '.join(cells + [ratio])} |"


def table(reports: list[dict]) -> str:
    runs = [run for report in reports for run in report["runs"]]
    prepared = [facts for report in reports for facts in report["prepared"]]
    errors = [error for report in reports for error in report["errors"]]
    lines = ["| model, px, batch, precision | Tandem, img/s | PyTorch's fastest | its other modes | "
             "Tandem, GiB tensors / card | PyTorch, GiB | ratio |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    seen = list(dict.fromkeys(Case(*run["case"]) for run in runs))
    lines += [row(runs, prepared, case) for case in seen]
    for error in errors:
        lines.append(f"not measured: {Case(*error['case'])}: {error['side']} failed to "
                     f"{error['what']}: {error['error']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the built training_step_gpu; without: PyTorch alone")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch, torchvision")
    parser.add_argument("--modes", default="eager,graph,compile",
                        help=f"of PyTorch, with commas, may be empty: {', '.join(MODES)}; "
                        "compiling takes about a minute a case")
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
    parser.add_argument("--torch-script", default=str(HERE / "training_step_torch_gpu.py"),
                        help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.table:
        print(table([json.loads(path.read_text()) for path in args.table]))
        return
    if args.out is None:
        parser.error("--out is missing")
    args.modes = [mode for mode in args.modes.split(",") if mode]
    unknown = sorted(set(args.modes) - set(MODES))
    if unknown:
        parser.error(f"unknown modes: {', '.join(unknown)}; there are {', '.join(MODES)}")
    cases = [case for case in CASES
             if not args.only or any(text in str(case) for text in args.only)]
    if not cases:
        parser.error("--only leaves no case; they are\n  " + "\n  ".join(map(str, CASES)))

    report = Report(args.out, args)
    Comparison(args, report).run(cases)
    print(table([report.data]))


if __name__ == "__main__":
    main()
