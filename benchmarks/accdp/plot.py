#!/usr/bin/env python3
"""Draws the figures from their raw files, as SVG and PNG, and writes their tables as Markdown.

    benchmarks/accdp/plot.py benchmarks/results/DATE-CARD/accdp --out docs/accdp

A figure may be measured in several files, and in several folders: each of its points is taken from
the last one that measured it with the batch that it has last.

A line joins points of one commit alone.

Without matplotlib the tables alone are written. Values are medians over the rounds; whiskers and
ranges go from the least to the most. Lines and bars differ in markers and hatches, not in
colour."""

import argparse
import json
import pathlib
import statistics
import sys
from typing import NamedTuple

MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
LINES = ["-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1))]
GRAYS = ["0.15", "0.45", "0.65", "0.85", "1.0", "0.3", "0.75", "0.95"]
HATCHES = ["", "//", "", "..", "xx", "\\\\", "++"]  # one fewer than grays: the pairs differ


class Value(NamedTuple):
    median: float
    least: float
    most: float


class Panel:
    """Series by name: x -> the values of its rounds, in the order in which they were measured; and x -> the commit
    that was measured."""

    def __init__(self):
        self.series: dict[str, dict] = {}
        self.commits: dict[str, dict] = {}
        self.errors: list[tuple[str, object, str]] = []
        self.fewer: list[tuple[str, object]] = []  # a round missing of these, each time

    def xs(self) -> list:
        found = []
        for values in self.series.values():
            found += [x for x in values if x not in found]
        return sorted(found) if all(isinstance(x, int) for x in found) else found

    def value(self, name: str, x) -> Value | None:
        rounds = self.series[name].get(x)
        if not rounds:
            return None
        values = list(rounds.values())
        return Value(statistics.median(values), min(values), max(values))


def is_measured(point: dict) -> bool:
    return any("error" not in run for run in point["runs"])


def merge(files: list[dict]) -> dict:
    """One figure's files, the last one first in rank: its points, and how and where those that have
    one of them were measured."""
    merged = files[-1] | {"sources": [], "points": []}
    points: dict[tuple, tuple[dict, tuple[dict, dict]]] = {}
    for data in files:
        for point in data["points"]:
            key = tuple(str(point[name]) for name in ("panel", "series", "x"))
            other, _ = points.get(key, (None, None))
            same = other is not None and other["global_batch"] == point["global_batch"]
            if is_measured(point) or not same or not is_measured(other):
                points[key] = point, (data["figure"], data["environment"])
    for point, source in points.values():
        merged["points"].append(point | {"commit": source[1].get("commit")})
        if source not in merged["sources"]:
            merged["sources"].append(source)
    if "sm_activity" in merged["figure"]["fields"].values():  # its series are batches
        merged["points"].sort(key=lambda point: (point["size"], point["global_batch"]))
    return merged


def read_figures(folders: list[pathlib.Path]) -> dict[str, dict]:
    """By name, merged."""
    found: dict[str, list[dict]] = {}
    for folder in folders:
        for path in sorted(folder.glob("figure_*.json")) + sorted(folder.glob("pytorch*.json")):
            data = json.loads(path.read_text())
            number = data["figure"]["number"]
            name = f"figure_{number}" if isinstance(number, int) else path.stem
            found.setdefault(name, []).append(data)
    return {name: merge(files) for name, files in sorted(found.items())}


def load(data: dict, fields: dict[str, str]) -> dict[str, Panel]:
    """The figure's panels by name, as absolute values of these fields."""
    panels: dict[str, Panel] = {}
    for point in data["points"]:
        panel = panels.setdefault(point["panel"], Panel())
        x = point["x"]
        for suffix, field in fields.items():
            name = ", ".join(part for part in (point["series"], suffix) if part)
            rounds = panel.series.setdefault(name, {}).setdefault(x, {})
            panel.commits.setdefault(name, {})[x] = point["commit"]
            for run in point["runs"]:
                if "error" in run:
                    if suffix != next(iter(fields)):
                        continue
                    if run["error"].startswith("not begun") and is_measured(point):
                        panel.fewer.append((point["series"], x))  # a limit ended a later round
                    else:
                        panel.errors.append((point["series"], x, run["error"]))
                elif isinstance(run[field], (int, float)):
                    rounds[run["round"]] = run[field]
    for panel in panels.values():
        panel.series = {name: xs for name, xs in panel.series.items() if any(xs.values())}
    return panels


def relative(panel: Panel, base: str) -> Panel:
    """Every other series over the base, round by round."""
    divided = Panel()
    divided.errors, divided.commits = panel.errors, panel.commits
    for name, values in panel.series.items():
        if name == base:
            continue
        divided.series[name] = {
            x: {r: value / panel.series[base][x][r] for r, value in rounds.items()
                if r in panel.series.get(base, {}).get(x, {})}
            for x, rounds in values.items()}
    return divided


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(value: Value | None) -> str:
    if value is None:
        return "–"
    if value.least == value.most:
        return number(value.median)
    return f"{number(value.median)} ({number(value.least)} to {number(value.most)})"


def table(figure: dict, name: str, panel: Panel, unit: str) -> str:
    head = ", ".join(part for part in (name, unit) if part)
    xs = panel.xs()
    lines = [f"| {head}; {figure['x_label']} | " + " | ".join(str(x) for x in xs) + " |",
             "| --- |" + " --- |" * len(xs)]
    for series in panel.series:
        cells = [cell(panel.value(series, x)) for x in xs]
        lines.append(f"| {series} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def bottlenecks(panel: Panel) -> str:
    """What limits training, by x: the slower of the step on one batch and the input alone."""
    words = []
    for x in panel.xs():
        found = {suffix: panel.value(name, x) for name in panel.series
                 for suffix in ("on one batch", "input alone", "training") if name.endswith(suffix)}
        if None in found.values():
            continue
        step, alone = found["on one batch"].median, found["input alone"].median
        limit = min(step, alone)
        reached = 100 * found["training"].median / limit
        words.append(f"{x} workers: {'input' if alone < step else 'computing'} "
                     f"(training reaches {reached:.0f} % of it)")
    return "Bottleneck: " + "; ".join(words) + "."


def tables(data: dict) -> str:
    figure = data["figure"]
    name = f"Figure {figure['number']}: " if isinstance(figure["number"], int) else ""
    parts = [f"### {name}{figure['title']}\n"]
    for facts, environment in data["sources"]:
        card = environment["cards"][0] if environment["cards"] else "CPU ranks"
        parts.append(f"{card}; {environment['date']}; commit {environment['commit']}; "
                     f"{facts['precision']}; {facts['rounds']} rounds of {facts['seconds']} s.\n")
    if "sm_activity" in figure["fields"].values():
        for name, panel in load(data, {"": "step_images_per_second"}).items():
            parts.append(table(figure, name, panel, "images/s") + "\n")
    for name, panel in load(data, figure["fields"]).items():
        unit = "images/s" if figure["relative_to"] else figure["y_label"]
        parts.append(table(figure, name, panel, unit) + "\n")
        if figure["relative_to"]:
            parts.append(table(figure, name, relative(panel, figure["relative_to"]),
                               figure["y_label"]) + "\n")
        if len(figure["fields"]) == 3:
            parts.append(bottlenecks(panel) + "\n")
        if panel.fewer:
            parts.append("Of fewer rounds: " + "; ".join(f"{x}, {series}" for series, x in panel.fewer) + ".\n")
        for series, x, error in panel.errors:
            parts.append(f"Not measured: {series}, {x}: {error}\n")
    return "\n".join(parts)


def errors_of(values: list[Value]) -> list[list[float]]:
    return [[v.median - v.least for v in values], [v.most - v.median for v in values]]


def rotation_for(labels: int) -> int:
    """Degrees by which so many names do not meet."""
    if labels <= 3:
        return 0
    return 20 if labels <= 6 else 60


def draw_bars(axes, panel: Panel, names: list[str]) -> None:
    xs = panel.xs()
    width = 0.8 / max(len(panel.series), 1)
    for nth, name in enumerate(panel.series):
        i = names.index(name)
        places, values = [], []
        for place, x in enumerate(xs):
            value = panel.value(name, x)
            if value is not None:
                places.append(place + (nth - (len(panel.series) - 1) / 2) * width)
                values.append(value)
        axes.bar(places, [v.median for v in values], width, yerr=errors_of(values), label=name,
                 color=GRAYS[i % len(GRAYS)], hatch=HATCHES[i % len(HATCHES)], edgecolor="black",
                 linewidth=0.6, error_kw={"elinewidth": 0.8})
    axes.set_xticks(range(len(xs)), [str(x) for x in xs], rotation=rotation_for(len(xs)))


def draw_lines(axes, panel: Panel, names: list[str]) -> None:
    for name in panel.series:
        i = names.index(name)
        found = [(x, panel.value(name, x)) for x in panel.xs()]
        found = [(x, value) for x, value in found if value is not None]
        if len(found) == 1 < len(panel.xs()):  # it does not depend on x
            stretches = [[(x, found[0][1]) for x in (panel.xs()[0], panel.xs()[-1])]]
        else:
            commit_of = panel.commits[name]
            commits = dict.fromkeys(commit_of[x] for x, _ in found)
            stretches = [[(x, value) for x, value in found if commit_of[x] == commit] for commit in commits]
        for nth, stretch in enumerate(stretches):
            axes.errorbar([x for x, _ in stretch], [v.median for _, v in stretch],
                          yerr=errors_of([v for _, v in stretch]), label=name if nth == 0 else None, color="black",
                          linestyle=LINES[i % len(LINES)], marker=MARKERS[i % len(MARKERS)],
                          markerfacecolor="white" if i % 2 else "black", linewidth=1, elinewidth=0.8)
    labels = [str(x) for x in panel.xs()]
    axes.set_xticks(panel.xs(), labels, rotation=rotation_for(len(labels)) if max(map(len, labels)) > 1 else 0)


def draw(data: dict, pyplot, folder: pathlib.Path, name: str) -> None:
    figure = data["figure"]
    panels = load(data, figure["fields"])
    if figure["relative_to"]:
        panels = {key: relative(panel, figure["relative_to"]) for key, panel in panels.items()}
    # A series looks the same in every panel.
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel.series))
    sheet, grid = pyplot.subplots(1, len(panels), figsize=(1 + 5.5 * len(panels), 4.2),
                                  squeeze=False, layout="constrained")
    for axes, (title, panel) in zip(grid[0], panels.items()):
        (draw_bars if figure["kind"] == "bars" else draw_lines)(axes, panel, names)
        if figure["relative_to"]:
            axes.axhline(1, color="black", linewidth=0.6)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(figure["x_label"])
        axes.set_ylabel(figure["y_label"])
        axes.set_ylim(bottom=0)
        if "images/s" == figure["y_label"]:
            axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
    shown = {}
    for axes in grid[0]:
        shown |= dict(zip(*reversed(axes.get_legend_handles_labels())))
    sheet.legend(shown.values(), shown.keys(), loc="outside lower center", fontsize=8,
                 ncols=3, frameon=False)
    builds = {commit for panel in panels.values() for xs in panel.commits.values() for commit in xs.values()}
    several = figure["kind"] == "lines" and len(builds) > 1
    sheet.suptitle(figure["title"] + (" (lines join points of one build)" if several else ""), fontsize=11)
    for suffix in ("svg", "png"):
        sheet.savefig(folder / f"{name}.{suffix}", dpi=150)
    pyplot.close(sheet)


def import_pyplot():
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed (python3 -m pip install matplotlib): the tables alone "
              "are written", file=sys.stderr)
        return None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tandem"  # the same picture is the same file
    from matplotlib import pyplot
    return pyplot


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", type=pathlib.Path, nargs="+", help="folders of raw files")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/accdp"))
    options = parser.parse_args()
    figures = read_figures(options.raw)
    if not figures:
        folders = ", ".join(map(str, options.raw))
        sys.exit(f"{folders}: no figure_*.json; run the figures' scripts first")
    options.out.mkdir(parents=True, exist_ok=True)
    pyplot = import_pyplot()
    texts = []
    for name, data in figures.items():
        texts.append(tables(data))
        if pyplot:
            draw(data, pyplot, options.out, name)
    (options.out / "tables.md").write_text("\n".join(texts))
    print(f"{options.out}: {len(figures)} figures{'' if pyplot else ' without plots'}, tables.md")


if __name__ == "__main__":
    main()
