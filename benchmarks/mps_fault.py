#!/usr/bin/env python3
"""Whom a fault of one of three clients of an MPS server is laid to: by the errors that CUDA tells each of them, by the
driver's lines in the kernel's log (dmesg, for those who may read it), and by the GPU core dumps that are written.

    benchmarks/mps_fault.py --program build/release/bin/mps_fault --trials 4 --out mps_fault.json

Prints a line of JSON for each trial, each under a daemon of its own: the fault, its process, the clients' errors, the
"Xid" numbers with the processes that the driver names, and of each client the size of its core dump."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from provenance import provenance, tandem_beside

FAULTS = ["address", "misaligned", "trap"]
WITH_MPS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "support" / "with_mps.sh"
THREE_CLIENTS = 'for role in computes idles "$2"; do "$1" "$role" & done; wait'
SMALL_DUMPS = ",".join(f"skip_{part}" for part in ["nonrelocated_elf_images", "global_memory", "shared_memory",
                                                   "local_memory", "constbank_memory", "abort"])


def kernel_log() -> list[str] | None:
    """None where it may not be read."""
    try:
        log = subprocess.run(["dmesg"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return log.stdout.splitlines() if log.returncode == 0 else None


def logged_since(last: str | None) -> list[str] | None:
    """The lines behind that one; all where the log has dropped it."""
    lines = kernel_log()
    if lines is None or last not in lines:
        return lines
    return lines[len(lines) - lines[::-1].index(last):]


def reports(lines: list[str]) -> list[dict]:
    found = []
    for line in lines:
        if match := re.search(r"NVRM: Xid \([^)]*\): (\d+)(?:, pid=(\d+))?(?:, name=([^,]*))?", line):
            xid, process, name = match.groups()
            found.append({"xid": int(xid), "process": int(process) if process else None, "name": name})
    return found


def run_clients(program: pathlib.Path, fault: str, environment: dict[str, str]) -> list[dict]:
    command = [WITH_MPS, "bash", "-c", THREE_CLIENTS, "-", program, fault]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            output, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.terminate()  # it ends its daemon then
            raise
    said = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if len(said) != 3:
        sys.exit(f"{program}: {len(said)} of three clients answered; a GPU, MPS and the program are needed")
    return said


def trial(program: pathlib.Path, fault: str, with_dumps: bool) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if with_dumps:
            environment |= {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_COREDUMP_FILE": f"{folder}/%p",
                            "CUDA_COREDUMP_GENERATION_FLAGS": SMALL_DUMPS}
        before = kernel_log()
        said = run_clients(program, fault, environment)
        logged = logged_since(before[-1] if before else None)
        dumps = {path.name: path.stat().st_size for path in pathlib.Path(folder).iterdir()}
    for client in said:
        client["dump_bytes"] = dumps.get(str(client["process"]))
    return {"fault": fault, "core_dumps": with_dumps, "clients": said,
            "logged": None if logged is None else reports(logged)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True, help="mps_fault")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("--trials", type=int, default=4, help="of each fault, and one more with core dumps")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    data = {**provenance(tandem_beside([str(options.program)])), "trials": []}
    for fault in options.faults:
        for with_dumps in [False] * options.trials + [True]:
            found = trial(options.program.resolve(), fault, with_dumps)
            data["trials"].append(found)
            print(json.dumps(found), flush=True)
            options.out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
