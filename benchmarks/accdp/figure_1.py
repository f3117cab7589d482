#!/usr/bin/env python3
"""How much of a GPU one rank uses: the share of time that its multiprocessors are at work."""

from placements import BATCH, Figure, Point, measure_figure

FIGURE = Figure(1, "SM activity of one rank", "model", "SM activity (share of time)", "bars",
                {"": "sm_activity"})

# The usual batch of a rank, and larger ones: the fastest of them is the model's best.
BATCHES = {32: [BATCH[32], 512, 2048, 8192], 224: [BATCH[224], 256, 1024]}


def points(options) -> list[Point]:
    chosen = {size: [batches[0], batches[-2]] if options.quick else batches
              for size, batches in BATCHES.items() if size in options.sizes}
    return [Point(f"batch {batch}", model, model, size, batch, panel=f"{size} px")
            for size, batches in chosen.items() for model in options.models for batch in batches]


if __name__ == "__main__":
    measure_figure(FIGURE, points)
