#!/usr/bin/env python3
"""Checks that the folders of src/ include each other in one direction.

    tools/folder_arrows.py [SOURCE]

Of SOURCE/src, and of each folder in it, the folders inside: which of them includes headers of which.
Prints every arrow, and every circle with the includes that close it, then with exit code 1. A
folder's own headers are what the parts have in common: a part includes what they include. Its own
sources put the parts together and are not looked at. Linking checks less, since headers alone link
nothing."""

import collections
import graphlib
import pathlib
import re
import sys
from collections.abc import Iterator

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
SOURCES = {".h", ".cuh", ".cpp", ".cu"}
Arrows = dict[str, dict[str, list[str]]]


def part_of(path: str, folder: str) -> str | None:
    """The folder inside `folder` that holds the path, where there is one."""
    rest = path.removeprefix(folder)
    return rest.split("/")[0] if path.startswith(folder) and "/" in rest else None


def ways_from(root: pathlib.Path, folder: str, path: str, seen: set[str]) -> Iterator[list[str]]:
    """To each header of a part of the folder that the file includes, itself or by the folder's own
    headers: those, and that header at the end. `seen`: own headers that need no second look."""
    for header in INCLUDE.findall((root / path).read_text()):
        if part_of(header, folder) is not None:
            yield [header]
        elif header.startswith(folder) and header not in seen and (root / header).is_file():
            seen.add(header)
            yield from ([header, *way] for way in ways_from(root, folder, header, seen))


def arrows_in(root: pathlib.Path, folder: str) -> Arrows:
    """`folder`: below root, "" or with a slash at its end."""
    arrows: Arrows = collections.defaultdict(lambda: collections.defaultdict(list))
    for source in sorted((root / folder).rglob("*")):
        path = source.relative_to(root).as_posix()
        part = part_of(path, folder)
        if part is None or source.suffix not in SOURCES:
            continue
        for way in ways_from(root, folder, path, set()):
            other = part_of(way[-1], folder)
            if other != part:
                arrows[part][other].append(f"{path} includes {', which includes '.join(way)}")
    return arrows


def circle_in(arrows: Arrows) -> list[str]:
    """Its parts, the first one again at the end; none where there is no circle."""
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]  # from who includes to who is included
    return []


def main() -> int:
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    root = source / "src"
    folders = sorted(path.name for path in root.glob("*") if path.is_dir())
    if not folders:
        print(f"folder_arrows.py: no folders in {root}; name the project's folder", file=sys.stderr)
        return 2
    circles = 0
    for folder in ["", *(f"{name}/" for name in folders)]:
        arrows = arrows_in(root, folder)
        for part in sorted(arrows):
            print(f"src/{folder}{part} -> {' '.join(sorted(arrows[part]))}")
        circle = circle_in(arrows)
        if circle:
            circles += 1
            print(f"error: src/{folder} has a circle: {' -> '.join(circle)}", file=sys.stderr)
            for part, other in zip(circle, circle[1:]):
                print(f"  {arrows[part][other][0]}", file=sys.stderr)
    return 1 if circles else 0


if __name__ == "__main__":
    sys.exit(main())
