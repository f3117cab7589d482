#!/usr/bin/env python3
"""Folded ranks against one rank with the whole batch, for every model of the zoo."""

from placements import BATCH, FOLDED, Figure, Placement, Point, ROOT, WHOLE, measure_figure

ZOO = sorted(path.stem for path in (ROOT / "models").glob("*.toml"))
# CIFAR's networks keep images of 32 pixels large for long.
SMALL_ONLY = {"resnet8", "resnet20", "resnet32", "resnet56"}
FIGURE = Figure("folded", "folded ranks over one rank with the whole batch", "model",
                f"images/s over {WHOLE}", "bars", relative_to=WHOLE)


def points(options) -> list[Point]:
    found = []
    for size in options.sizes:
        for model in options.models:
            if size > 64 and model in SMALL_ONLY:
                continue
            for name, placement in {WHOLE: Placement(),
                                    FOLDED: Placement(options.folded, "folded")}.items():
                found.append(Point(name, model, model, size, 4 * BATCH[size], placement,
                                   panel=f"{size} px"))
    return found


if __name__ == "__main__":
    measure_figure(FIGURE, points, ZOO)
