#!/usr/bin/env python3
"""How much of a GPU one rank uses: the share of time that its multiprocessors are at work.

Beside the usual batch of a rank there are larger ones, the fastest of which is the model's best, and four ranks
of the usual batch in every way, whose whole batch on one rank is the first of the larger ones."""

from placements import BATCH, WHOLE, Figure, Point, controls, measure_figure

FIGURE = Figure(1, "SM activity of one rank, and of four", "model", "SM activity (share of time)", "bars",
                {"": "sm_activity"})

RANKS = 4
BATCHES = {32: [BATCH[32], 512, 2048, 8192, 32768, 131072], 224: [BATCH[224], 256, 1024, 2048, 4096]}
QUICK = {32: [BATCH[32], 2048], 224: [BATCH[224], 256]}


def points(options) -> list[Point]:
    """By batch: one rank's, the same samples of four ranks in every placement, then larger ones, which take
    longest and are what a limit may cut off."""
    sizes = [size for size in BATCHES if size in options.sizes]
    batches = QUICK if options.quick else BATCHES
    if options.batches:
        batches = dict.fromkeys(sizes, sorted(options.batches))
    found = [Point(f"batch {batch}", model, model, size, batch, panel=f"{size} px")
             for size in sizes for batch in batches[size] for model in options.models]
    if options.quick or options.batches:
        return found
    ways = [Point(f"{RANKS} {series} of {BATCH[size]}", model, model, size, RANKS * BATCH[size], placement,
                  panel=f"{size} px")
            for size in sizes for model in options.models
            for series, placement in controls(RANKS).items() if series != WHOLE]
    return sorted(found + ways, key=lambda point: point.global_batch)


if __name__ == "__main__":
    measure_figure(FIGURE, points)
