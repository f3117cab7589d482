#!/usr/bin/env python3
"""Where the bottleneck is: training on one batch, the input alone, and both, by loader workers.

The images are synthetic, with the padded crop and flip of CIFAR's recipe, or, with --photos FOLDER,
JPEGs with the random-resized crop and flip of ImageNet's."""

from placements import BATCH, MPS, SLICED, Figure, Placement, Point, measure_figure

SIZE = 224
MODEL = "resnet18"
RANKS = 4
FIGURE = Figure(8, f"{MODEL}, {SIZE} px: the loader's workers", "loader workers on the host",
                "images/s", "lines",
                {"on one batch": "step_images_per_second",
                 "input alone": "loader_images_per_second",
                 "training": "training_images_per_second"})


def points(options) -> list[Point]:
    threads = [4, 8, 16] if options.quick else [1, 2, 4, 8, 16]
    if options.device == "cpu":
        threads = [1, 2]
    batch = RANKS * BATCH[SIZE]
    found = [Point("", count, MODEL, SIZE, batch, panel="one rank, whole batch", workers=count)
             for count in threads]
    ranks = 2 if options.device == "cpu" else RANKS
    found += [Point("", count, MODEL, SIZE, batch, Placement(ranks, "folded"),
                    panel=f"{ranks} folded ranks", workers=count) for count in threads]
    for series, how in [(MPS, "processes"), (SLICED, "time-sliced")]:
        found += [Point("", count, MODEL, SIZE, batch, Placement(ranks, how), panel=f"{ranks} {series}",
                        workers=count // ranks)
                  for count in threads if count >= ranks]
    return found


if __name__ == "__main__":
    measure_figure(FIGURE, points)
