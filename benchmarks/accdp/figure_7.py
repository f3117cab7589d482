#!/usr/bin/env python3
"""Throughput of four ranks on a GPU against the share of its multiprocessors that each may use."""

from placements import (BATCH, FOLDED, MPS, SLICED, WHOLE, Figure, Placement, Point, controls,
                        measure_figure)

SIZE = 32
MODEL = "resnet18"
RANKS = 4
FIGURE = Figure(7, f"{MODEL}, {SIZE} px: SM share of {RANKS} ranks on one GPU",
                "SMs that a process may use (%)", "images/s", "lines")


def points(options) -> list[Point]:
    shares = [25, 38, 50, 100] if options.quick else [10, 20, 25, 30, 40, 50, 60, 80, 100]
    if options.device == "cpu":
        shares = [100]
    batch = RANKS * BATCH[SIZE]
    # Kernels for a rank's batch are chosen once here, while nobody else uses the GPU.
    found = [Point(f"one rank of {BATCH[SIZE]}", 100, MODEL, SIZE, BATCH[SIZE])]
    found += [Point(name, 100, MODEL, SIZE, batch, controls(RANKS)[name])
              for name in (WHOLE, FOLDED, SLICED)]
    found += [Point(MPS, share, MODEL, SIZE, batch,
                    Placement(RANKS, sm_percent=share if share < 100 else 0)) for share in shares]
    return found


if __name__ == "__main__":
    measure_figure(FIGURE, points)
