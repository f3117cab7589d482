"""Where, when and of what a measurement is: what every script's file of results says of itself."""

import datetime
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
CARD = ["name", "driver_version", "memory.total", "power.limit", "clocks.max.sm"]
LIBRARIES = ["oneDNN", "MPI", "CUDA", "cuDNN", "NCCL"]


def output_of(command: list[str], folder: pathlib.Path | None = None) -> str | None:
    """What it prints; None where it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def query_date() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def query_commit() -> str | None:
    """Of these scripts' sources; None outside a repository."""
    return output_of(["git", "describe", "--always", "--dirty", "--abbrev=12"], HERE)


def query_cards(fields: list[str]) -> list[list[str]]:
    text = output_of(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"])
    return [[value.strip() for value in line.split(",")] for line in (text or "").splitlines()]


def without_folders(command: str) -> str:
    """Where a machine keeps its files says nothing of a measurement: of absolute paths the names alone."""
    return re.sub(r"(?<![^\s=])/\S*/(\S+)", r"\1", command)


def tandem_beside(command: list[str]) -> pathlib.Path | None:
    """The `tandem` of the build whose program the command starts."""
    found = (pathlib.Path(word).with_name("tandem") for word in command if "/" in word)
    return next((path for path in found if path.is_file()), None)


def doctor_lines(program: str | pathlib.Path | None) -> list[str]:
    """What `tandem doctor` of that build finds."""
    return (output_of([str(program), "doctor"]) or "").splitlines() if program else []


def versions_of(program: str | pathlib.Path | None) -> dict[str, str]:
    """Of the libraries that `tandem doctor` finds."""
    found = {}
    for line in doctor_lines(program):
        state, name, text = line[:4].strip(), line[4:16].strip(), line[16:]
        if state == "ok" and name in LIBRARIES:
            found[name] = text
    return found


def provenance(program: str | pathlib.Path | None = None) -> dict:
    """Date, commit, the first card with its driver (None: no GPU), and the libraries' versions, which
    the build's `tandem` tells."""
    cards = query_cards(CARD)
    return {"date": query_date(), "commit": query_commit(),
            "card": dict(zip(CARD, cards[0])) if cards else None, "versions": versions_of(program)}
