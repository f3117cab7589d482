"""What a program left behind when it ended: processes that go on, in sessions of their own perhaps.

They are known by a mark in the environment that they were started with, or by the program's output
file, which they hold open: a process may drop either, seldom both."""

import os
import pathlib
import signal
import time
from typing import NamedTuple

PAUSE = 0.02  # seconds between two looks
GRACE = 2.0  # to end by themselves, as launchers do a moment behind what they launched
PATIENCE = 20.0  # with processes that are killed: a driver may hold one, or it starts others meanwhile
WORDS = 100  # characters of a command line


class Left(NamedTuple):
    ended: list[str]  # "PID COMMAND" each
    going_on: list[str]  # in spite of SIGKILL


def find(mark: str, output: pathlib.Path) -> dict[int, str]:
    """Their command lines by process. `mark`: VARIABLE=VALUE."""
    file = str(output.resolve())
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            if is_marked(process, mark) or holds(process, file):
                found[int(process.name)] = command_of(process)
        except OSError:
            pass  # it has ended, or is another user's
    return found


def is_marked(process: pathlib.Path, mark: str) -> bool:
    return mark.encode() in (process / "environ").read_bytes().split(b"\0")


def holds(process: pathlib.Path, file: str) -> bool:
    """By the links' words: to follow them may hang, where a process has a file of a disk that does."""
    for descriptor in (process / "fd").iterdir():
        try:
            if os.readlink(descriptor) == file:
                return True
        except OSError:
            pass  # closed meanwhile
    return False


def command_of(process: pathlib.Path) -> str:
    words = (process / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return b" ".join(words).decode(errors="replace").replace("\n", " ")[:WORDS]


def end(mark: str, output: pathlib.Path, grace: float = GRACE, patience: float = PATIENCE) -> Left:
    """Kills them, and those that they start meanwhile, until none is found or `patience` is over."""
    found = find(mark, output)
    deadline = time.monotonic() + grace
    while found and time.monotonic() < deadline:
        time.sleep(PAUSE)
        found = find(mark, output)
    seen = {}
    deadline = time.monotonic() + patience
    while found:
        seen |= found
        if time.monotonic() >= deadline:
            break
        for process in found:
            kill(process)
        time.sleep(PAUSE)
        found = find(mark, output)
    return Left([f"{process} {command}" for process, command in seen.items() if process not in found],
                [f"{process} {command}" for process, command in found.items()])


def kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except OSError:
        pass  # it has ended, or is another user's
