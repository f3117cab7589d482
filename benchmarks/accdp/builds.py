#!/usr/bin/env python3
"""Folded ranks of several builds of Tandem in turns: what a change brought.

    benchmarks/accdp/builds.py --build before=OLD/tandem --build now=build/release/bin/tandem \\
        --models mobilenet_v2 resnet18 --folded 1 4 8 --out accdp

Writes figure_builds.json; the speed-ups are over the first build."""

import argparse
import dataclasses
import pathlib
import sys

from placements import Placement, Point, RawFile, environment_of, measure, on_a_cpu
from provenance import versions_of


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", action="append", required=True, metavar="NAME=PROGRAM")
    parser.add_argument("--models", nargs="+", default=["mobilenet_v2", "resnet18"])
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=512, help="of all ranks together")
    parser.add_argument("--folded", type=int, nargs="+", default=[1, 4, 8], help="numbers of ranks")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda",
                        help="cpu: a tiny model, to test this script")
    parser.add_argument("--precision", help="default bf16; on a CPU fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="of tandem bench")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one run")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="of every run; repeatable")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("accdp"))
    options = parser.parse_args()
    options.precision = options.precision or ("fp32" if options.device == "cpu" else "bf16")
    options.photos = None
    options.builds = {}
    for build in options.build:
        name, given, program = build.partition("=")
        if not given:
            parser.error(f"--build {build}: expected NAME=PROGRAM")
        options.builds[name] = program
    return options


def points(options, build: str) -> list[Point]:
    found = [Point(build, f"{model}, {folded}", model, options.size, options.batch,
                   Placement(folded, "folded"))
             for model in options.models for folded in options.folded]
    return [on_a_cpu(point) for point in found] if options.device == "cpu" else found


def main() -> None:
    options = parse_options()
    first = next(iter(options.builds))
    figure = {"number": "builds", "kind": "bars", "x_label": "model, folded ranks",
              "y_label": f"images/s over {first}", "fields": {"": "step_images_per_second"},
              "title": f"builds in turns, {options.size} px, global batch {options.batch}",
              "relative_to": first, "device": options.device, "precision": options.precision,
              "rounds": options.rounds, "seconds": options.seconds, "settings": options.set,
              "images": "synthetic"}
    environment = environment_of(options.builds[first])
    environment["builds"] = {name: versions_of(program) for name, program in options.builds.items()}
    raw = RawFile(options.out, "figure_builds", figure, environment)
    for round_number in range(options.rounds):
        for turns in zip(*(points(options, name) for name in options.builds)):
            for point in turns:
                options.program = options.builds[point.series]
                found = measure(options, point)
                raw.add(dataclasses.asdict(point), {"round": round_number} | found)
                rate = found.get("step_images_per_second")
                print(f"round {round_number + 1}: {point.x}, {point.series}: "
                      f"{found['error'] if rate is None else f'{rate:.0f} img/s'}",
                      file=sys.stderr, flush=True)
    print(f"{raw.path}: plot.py draws it")


if __name__ == "__main__":
    main()
