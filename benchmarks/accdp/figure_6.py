#!/usr/bin/env python3
"""Throughput against the number of ranks on a GPU, a rank's batch being the same."""

from placements import BATCH, Figure, Point, controls, measure_figure

SIZE = 32
MODEL = "resnet18"
FIGURE = Figure(6, f"{MODEL}, {SIZE} px: ranks on one GPU, batch {BATCH[SIZE]} each",
                "ranks on the GPU", "images/s", "lines")


def points(options) -> list[Point]:
    counts = [1, 2, 4, 8] if options.quick else [1, 2, 3, 4, 5, 6, 7, 8]
    # One rank is the first point of every line.
    names = controls(2)
    found = [Point(name, 1, MODEL, SIZE, BATCH[SIZE]) for name in names]
    for ranks in counts[1:]:
        found += [Point(name, ranks, MODEL, SIZE, ranks * BATCH[SIZE], placement)
                  for name, placement in controls(ranks).items()]
    return found


if __name__ == "__main__":
    measure_figure(FIGURE, points)
