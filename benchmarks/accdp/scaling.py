"""Figures 4 and 5: a model on 1, 2 and 4 GPUs, with one and four ranks on each.

Weak scaling: a rank's batch stays, so each GPU has four times as much with four ranks, or with one
rank of that batch. Strong scaling: the global batch stays what four ranks on the largest number of
GPUs have."""

from placements import BATCH, Figure, Placement, Point, controls

RANKS = 4
SIZE = 32
LARGEST = 4  # GPUs


def scaling_figure(number: int, model: str) -> Figure:
    return Figure(number, f"{model}, {SIZE} px, on several GPUs", "GPUs", "images/s", "lines")


def scaling_points(model: str, gpu_counts: list[int]) -> list[Point]:
    batch = BATCH[SIZE]
    points = []
    for gpus in gpu_counts:
        points.append(Point(f"one rank of {batch} a GPU", gpus, model, SIZE, batch * gpus,
                            Placement(gpus=gpus), "weak scaling"))
        points += [Point(name, gpus, model, SIZE, RANKS * batch * gpus, placement,
                         "weak scaling") for name, placement in controls(RANKS, gpus).items()]
    whole = RANKS * batch * LARGEST
    for gpus in gpu_counts:
        points += [Point(name, gpus, model, SIZE, whole, placement, "strong scaling")
                   for name, placement in controls(RANKS, gpus).items()]
    return points
