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
    benchmarks/compare_gpu.py --table results.json later.json     # only prints what is there
"""

import argparse
import json
import statistics
import sys
import time

from gpu_sides import (HERE, Case, Report, Side, SideError, add_options, chosen_cases, errors_of,
                       rates, table_of, tandem_command, tensor_gib, thousands)
from provenance import tandem_beside, versions_of

MODES = ["eager", "graph", "compile", "compile-graph", "compile-max", "compile-reduce-overhead"]


class Comparison:
    def __init__(self, args: argparse.Namespace, report: Report):
        self.args = args
        self.report = report
        self.torch: Side | None = None

    def torch_side(self) -> Side:
        """One process for all cases, for it takes seconds to start; another one if it died."""
        if self.torch is None or not self.torch.alive():
            self.torch = Side([self.args.python, self.args.torch_script, "--wait"])
            self.report.data["versions"] = self.torch.answer(self.args.patience)
        return self.torch

    def prepare_tandem(self, case: Case) -> Side | None:
        if not self.args.program:
            return None
        side = Side(tandem_command([self.args.program], case))
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


def memory(prepared: list[dict], case: Case, side: str) -> str:
    """GiB of the step's own tensors, and all that the process took on the card for it."""
    mine = [facts for facts in prepared if Case(*facts["case"]) == case and facts["side"] == side]
    if not mine:
        return "–"
    facts = mine[-1]
    if side == "tandem":
        own = tensor_gib(facts)
    else:
        own = facts["allocated_bytes"] / 2**30
    return f"{own:.2f} / {facts['device_bytes'] / 2**30:.2f}"


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
    """Each case of the last report that has it."""
    last = {Case(*run["case"]): report for report in reports for run in report["runs"]}
    lines = ["| model, px, batch, precision | Tandem, img/s | PyTorch's fastest | its other modes | "
             "Tandem, GiB tensors / card | PyTorch, GiB | ratio |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    lines += [row(report["runs"], report["prepared"], case) for case, report in last.items()]
    lines += errors_of(reports)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the built training_step_gpu; without: PyTorch alone")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch, torchvision")
    parser.add_argument("--modes", default="eager,graph,compile",
                        help=f"of PyTorch, with commas, may be empty: {', '.join(MODES)}; "
                        "compiling takes about a minute a case")
    add_options(parser)
    parser.add_argument("--torch-script", default=str(HERE / "training_step_torch_gpu.py"),
                        help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.table:
        print(table_of(table, args.table))
        return
    args.modes = [mode for mode in args.modes.split(",") if mode]
    unknown = sorted(set(args.modes) - set(MODES))
    if unknown:
        parser.error(f"unknown modes: {', '.join(unknown)}; there are {', '.join(MODES)}")
    cases = chosen_cases(parser, args)

    ours = versions_of(tandem_beside([args.program])) if args.program else {}
    report = Report(args.out, {"tandem_versions": ours, "rounds": args.rounds,
                               "seconds": args.seconds, "modes": args.modes})
    Comparison(args, report).run(cases)
    print(table([report.data]))
    if not report.data["runs"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
