#!/usr/bin/env python3
"""Checks that the folders of src/ include each other as SOURCE/src/folder_arrows.txt allows.

    tools/folder_arrows.py [SOURCE]

Of SOURCE/src, and of each folder in it, the folders inside: which of them includes headers of which.
Prints every arrow; each include of an arrow that the table has not; and every circle with the
includes that close it. Exit code 1 where there is one of the latter two. A folder's own headers are
what the parts have in common: a part includes what they include. Its own sources put the parts
together and are not looked at. Linking checks less: headers alone link nothing, and a program links
all folders."""

import collections
import graphlib
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
SOURCES = {".h", ".cuh", ".cpp", ".cu"}
TABLE = "src/folder_arrows.txt"


class Way(NamedTuple):
    """From a file to a header of another part, by headers of the folder that holds both."""

    place: str  # of the file's include: "src/data/data_loader.h:7"
    headers: list[str]

    def __str__(self) -> str:
        return f"{self.place} includes {', which includes '.join(self.headers)}"


Arrows = dict[str, dict[str, list[Way]]]
Table = dict[str, list[str]]  # by folder below src/, as "layers/convolution"


def part_of(path: str, folder: str) -> str | None:
    """The folder inside `folder` that holds the path, where there is one."""
    rest = path.removeprefix(folder)
    return rest.split("/")[0] if path.startswith(folder) and "/" in rest else None


def ways_from(root: pathlib.Path, folder: str, path: str, seen: set[str]) -> Iterator[Way]:
    """To each header of a part of the folder that the file includes, itself or by the folder's own
    headers. `seen`: own headers that need no second look."""
    for number, line in enumerate((root / path).read_text().splitlines(), start=1):
        include = INCLUDE.match(line)
        if include is None:
            continue
        header = include.group(1)
        place = f"src/{path}:{number}"
        if part_of(header, folder) is not None:
            yield Way(place, [header])
        elif header.startswith(folder) and header not in seen and (root / header).is_file():
            seen.add(header)
            for way in ways_from(root, folder, header, seen):
                yield Way(place, [header, *way.headers])


def arrows_in(root: pathlib.Path, folder: str) -> Arrows:
    """`folder`: below root, "" or with a slash at its end."""
    arrows: Arrows = collections.defaultdict(lambda: collections.defaultdict(list))
    for source in sorted((root / folder).rglob("*")):
        path = source.relative_to(root).as_posix()
        part = part_of(path, folder)
        if part is None or source.suffix not in SOURCES:
            continue
        for way in ways_from(root, folder, path, set()):
            other = part_of(way.headers[-1], folder)
            if other != part:
                arrows[part][other].append(way)
    return arrows


def circle_in(arrows: Arrows) -> list[str]:
    """Its parts, the first one again at the end; none where there is no circle."""
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]  # from who includes to who is included
    return []


def read_table(source: pathlib.Path) -> Table:
    """Raises ValueError where a line has no colon, or names what is no folder."""
    table: Table = {}
    for number, line in enumerate((source / TABLE).read_text().splitlines(), start=1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, colon, others = line.partition(":")
        if not colon:
            raise ValueError(f"{TABLE}:{number}: write FOLDER: and what it may include")
        beside = pathlib.PurePosixPath(folder).parent
        for name in [folder, *(str(beside / other) for other in others.split())]:
            if not (source / "src" / name).is_dir():
                raise ValueError(f"{TABLE}:{number}: src/{name} is no folder")
        table[folder] = others.split()
    return table


def forbidden_in(arrows: Arrows, folder: str, table: Table) -> Iterator[str]:
    for part in sorted(arrows):
        allowed = table.get(folder + part, [])
        beside = f" beside it in src/{folder.removesuffix('/')}" if folder else ""
        may = f"{' '.join(allowed)} alone" if allowed else "nothing"
        for other in sorted(set(arrows[part]) - set(allowed)):
            for way in arrows[part][other]:
                yield f"{way}; src/{folder}{part} may include {may}{beside} ({TABLE})"


def check(source: pathlib.Path, folders: list[str]) -> int:
    """How many errors it has told."""
    table = read_table(source)
    errors = 0
    for folder in ["", *(f"{name}/" for name in folders)]:
        arrows = arrows_in(source / "src", folder)
        for part in sorted(arrows):
            print(f"src/{folder}{part} -> {' '.join(sorted(arrows[part]))}")
        for error in forbidden_in(arrows, folder, table):
            errors += 1
            print(f"error: {error}", file=sys.stderr)
        circle = circle_in(arrows)
        if circle:
            errors += 1
            print(f"error: src/{folder} has a circle: {' -> '.join(circle)}", file=sys.stderr)
            for part, other in zip(circle, circle[1:]):
                print(f"  {arrows[part][other][0]}", file=sys.stderr)
    return errors


def main() -> int:
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    root = source / "src"
    folders = sorted(path.name for path in root.glob("*") if path.is_dir())
    if not folders:
        print(f"folder_arrows.py: no folders in {root}; name the project's folder", file=sys.stderr)
        return 2
    try:
        return 1 if check(source, folders) else 0
    except (OSError, ValueError) as error:
        print(f"folder_arrows.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
