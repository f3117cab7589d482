#!/usr/bin/env python3
"""Keeps the lines of JSON that a program prints, behind one that says when, where and of what.

What is printed goes on to the terminal. A file that is there already is appended to: the lines of each
run follow its {"provenance": ...}. Ends with the program's exit code. Builds nothing:

    bin=build/release/bin
    benchmarks/json_lines.py --out sums.jsonl \\
        tests/support/with_mps.sh mpirun -n 4 $bin/colocated_all_reduce
    benchmarks/json_lines.py --out exchange.jsonl mpirun -n 2 $bin/gradient_exchange
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys

from provenance import provenance, tandem_beside, without_folders


def is_record(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False  # somebody's chatter


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the file of lines")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND",
                        help="what is run, with its arguments")
    options = parser.parse_args()
    if not options.command:
        parser.error("no command is given")
    facts = provenance(tandem_beside(options.command)) | {
        "command": without_folders(shlex.join(options.command))}
    head = json.dumps({"provenance": facts}) + "\n"
    try:
        process = subprocess.Popen(options.command, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        sys.exit(f"{options.command[0]} cannot be started: {error.strerror}")
    with process, options.out.open("a") as out:
        for line in process.stdout:
            print(line, end="", flush=True)
            if is_record(line):
                out.write(head + line.rstrip("\n") + "\n")
                out.flush()
                head = ""
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


if __name__ == "__main__":
    sys.exit(main())
