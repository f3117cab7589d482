"""Figures 2 and 3: four ranks on a GPU over one, in every way, at one image size."""

from placements import BATCH, Figure, MODELS, Point, controls

RANKS = 4


def base_name(size: int) -> str:
    return f"one rank of {BATCH[size]}"


def speedup_figure(number: int, size: int) -> Figure:
    return Figure(number, f"{RANKS} ranks on a GPU over one, {size} px, batch {BATCH[size]} each",
                  "model", f"images/s over {base_name(size)}", "bars",
                  relative_to=base_name(size))


def speedup_points(size: int, models: list[str]) -> list[Point]:
    points = []
    for model in models:
        points.append(Point(base_name(size), model, model, size, BATCH[size]))
        points += [Point(name, model, model, size, RANKS * BATCH[size], placement)
                   for name, placement in controls(RANKS).items()]
    return points
