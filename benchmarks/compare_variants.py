#!/usr/bin/env python3
"""Compares variants of Tandem's own training step on one GPU of this machine: options, or builds.

For each case all variants are made ready, each in a process of its own, and then measured in turns,
in rounds, so that a slow moment of the card hits all. A variant's figure is the median of its
rounds, with the smallest and largest beside it, and its ratio to the first variant's; last come the
GiB of its own tensors. Every measurement is in the JSON file as soon as it is made. Builds nothing:

    bin=build/release/bin
    benchmarks/compare_variants.py --out results.json --only mobilenet \\
        --variant "never=$bin/training_step_gpu --defer-norm never" \\
        --variant "by_size=$bin/training_step_gpu"
    benchmarks/compare_variants.py --table results.json        # only prints what is there
"""

import argparse
import shlex
import statistics
import sys
import time

from gpu_sides import (Case, Report, Side, SideError, add_options, chosen_cases, errors_of, rates,
                       table_of, tandem_command, tensor_gib, thousands)
from provenance import tandem_beside, versions_of


def prepare(report: Report, case: Case, variants: dict[str, list[str]],
            patience: float) -> dict[str, Side]:
    """Those that are ready."""
    ready = {}
    for name, program in variants.items():
        side = Side(tandem_command(program, case))
        try:
            report.add("prepared", case, name, side.answer(patience))
            ready[name] = side
        except SideError as error:
            report.fail(case, name, "prepare", error)
            side.close()
    return ready


def compare(report: Report, case: Case, args: argparse.Namespace) -> None:
    sides = prepare(report, case, args.variants, args.patience)
    for round_ in range(args.rounds):
        for name, side in list(sides.items()):
            side.say(str(args.seconds))
            try:
                values = side.answer(10 * args.seconds + 60)
                report.add("runs", case, name, {"round": round_} | values)
            except SideError as error:
                report.fail(case, name, "measure", error)
                sides.pop(name).close()
    for side in sides.values():
        side.close()


def rows(reports: list[dict], case: Case) -> list[str]:
    runs = [run for report in reports for run in report["runs"] if Case(*run["case"]) == case]
    gib = {facts["side"]: tensor_gib(facts) for report in reports for facts in report["prepared"]
           if Case(*facts["case"]) == case}
    names = dict.fromkeys(name for report in reports for name in report["variants"])
    medians = {name: statistics.median(mine) for name in names
               if (mine := rates(runs, case, name))}
    first = medians.get(next(iter(names)))
    lines = []
    for name in medians:
        ratio = "–" if first is None else f"{medians[name] / first:.3f}"
        lines.append(f"| {case} | {name} | {thousands(rates(runs, case, name))} | {ratio} | "
                     f"{gib[name]:.2f} |")
    return lines


def table(reports: list[dict]) -> str:
    lines = ["| model, px, batch, precision | variant | img/s | ratio | GiB |",
             "| --- | --- | --- | --- | --- |"]
    for case in dict.fromkeys(Case(*run["case"]) for report in reports for run in report["runs"]):
        lines += rows(reports, case)
    return "\n".join(lines + errors_of(reports))


def parse_variants(parser: argparse.ArgumentParser, texts: list[str]) -> dict[str, list[str]]:
    variants = {}
    for text in texts:
        name, _, command = text.partition("=")
        if not name or not shlex.split(command):
            parser.error(f"--variant {text}: expected NAME=PROGRAM [OPTION...]")
        if name in variants:
            parser.error(f"--variant {text}: there is a variant of that name")
        variants[name] = shlex.split(command)
    if not variants:
        parser.error("--variant is missing")
    return variants


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", action="append", default=[], metavar="NAME=COMMAND",
                        help="training_step_gpu of some build, and options for it; repeatable")
    add_options(parser)
    args = parser.parse_args()
    if args.table:
        print(table_of(table, args.table))
        return
    cases = chosen_cases(parser, args)
    args.variants = parse_variants(parser, args.variant)
    first = next(iter(args.variants.values()))
    report = Report(args.out, {"versions": versions_of(tandem_beside(first)), "rounds": args.rounds,
                               "seconds": args.seconds, "variants": args.variants})
    start = time.monotonic()
    for case in cases:
        spent = time.monotonic() - start
        if spent > args.limit:
            report.fail(case, "all", "begin", SideError(f"{spent:.0f} s are over"))
            continue
        compare(report, case, args)
        print(f"{time.monotonic() - start:4.0f} s | {case}", file=sys.stderr, flush=True)
    print(table([report.data]))


if __name__ == "__main__":
    main()
