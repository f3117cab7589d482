#!/usr/bin/env python3
"""Runs GoogleTest programs in shards, side by side, on a GPU: as they are, or under compute-sanitizer.

    tools/device_tests.py build/ci/bin/tests/test_layers_cuda --jobs 12 --mps
    tools/device_tests.py build/ci/bin/tests/test_layers_cuda --tool racecheck --jobs 15 --shards 60 \\
        --filter '*batch_norm*' --limit 150 --out sanitizers.txt

Prints a line for each shard, the tests that failed or that a shard did not come to, a tool's first
reports of each shard with the test that was begun last before each (leaks are reported behind the last
one; what memcheck says of names in cuDNN's binaries is counted alone, and is no error), and a line for each program, with exit code 1 where not all is well. A shard that ends early
(--limit, or a tool's own error) names the test it was at; the tests behind it count as not run. A tool
gives its verdict when a shard ends: more shards than jobs keep one that is ended from taking many tests'
along.
Processes that tests leave behind are named and killed, and then not all is well. Under a tool the
kernels of Tandem alone are looked at, unless --all-kernels is given, and kernels are not chosen by
timing (TANDEM_TUNE=off), which would take most of the time; tests that repeat what they do
(tests/support/repeats.h) do it once (TANDEM_TEST_REPEATS=1). racecheck of CUDA 13.0 ends where it
meets some of the libraries' kernels; that of nvidia-cuda-sanitizer-api 13.5 (PyPI) has not yet. With
TANDEM_TUNE=own in the environment no library's kernels run, and --skip-kernel direct_ passes over the
slow ones that compute in their place."""

import argparse
import itertools
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import left_processes

TOOLS = ["none", "memcheck", "racecheck", "initcheck", "synccheck"]
HERE = pathlib.Path(__file__).resolve().parent
WITH_MPS = HERE.parent / "tests" / "support" / "with_mps.sh"
ERROR_EXIT = 86  # of compute-sanitizer where it has found something
# A tool's first line of what it has found: what is neither one of its further lines, which are indented, nor
# of the run itself.
REPORT = (r"^=+ (?! |COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|Target application|"
          r"Internal Sanitizer Error|\(|Error: process)(?=.)")
# memcheck's report of a name that kernels share in cuDNN's binaries, as cuDNN itself loads them: about no memory,
# and nothing that Tandem could do otherwise.
OF_CUDNNS_NAMES = (r"^=+ CUDA API Error: Duplicate entry kernels named .*\n=+ +Saved host backtrace.*\n"
                   r"=+ +Host Frame: .* in libcuda\.so.*\n=+ +Host Frame: .* in libcudnn.*\n")
REPORTS_OF_A_SHARD = 3
LINES_BEHIND_A_REPORT = 6  # its own, which are indented
RUN = r"^\[ RUN +\] (\S+)$"  # GoogleTest's, where a test begins
WORDS_OF_A_FAILURE = 20
MARK = "TANDEM_DEVICE_TESTS_SHARD"  # in the environment of what a shard starts
RUNS = itertools.count()  # of shards, of all programs


@dataclass
class Shard:
    index: int
    begun: bool = True
    seconds: float = 0.0
    code: int | None = None  # None: ended by the limit
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # by themselves
    not_run: list[str] = field(default_factory=list)
    at: str = ""  # the test that it was ended in
    summary: str = ""  # the tool's
    errors: int | None = None  # in its summaries, where these tell of nothing else
    of_cudnns_names: int = 0  # reports
    has_verdict: bool = False  # of the tool
    words: list[str] = field(default_factory=list)  # of the tests that failed
    reports: list[str] = field(default_factory=list)  # the tool's first ones
    shown: list[str] = field(default_factory=list)  # what --show asks for
    left_behind: list[str] = field(default_factory=list)  # processes, killed since
    not_killed: list[str] = field(default_factory=list)  # those that go on

    def is_well(self) -> bool:
        ended_well = self.code == 0 or (self.code == ERROR_EXIT and self.errors == self.of_cudnns_names > 0)
        return ended_well and not (self.failed or self.not_run or self.left_behind or self.not_killed)

    def text(self) -> str:
        parts = [f"{len(self.passed)} passed", f"{len(self.failed)} failed"]
        if self.skipped:
            parts.append(f"{len(self.skipped)} skipped")
        if self.not_run:
            parts.append(f"{len(self.not_run)} not run")
        line = f"shard {self.index}: {', '.join(parts)}, {self.seconds:.0f} s"
        if not self.begun:
            line += "; not begun within the limit"
        elif self.code is None:
            line += "; ended by the limit"
        elif self.code != 0:
            line += f"; exit code {self.code}"
        if self.at:
            line += f" in {self.at}"
        for count, what in [(len(self.left_behind), "left behind"), (len(self.not_killed), "not to be killed")]:
            if count:
                line += f"; {count} process{'es' if count > 1 else ''} {what}"
        line += f"; {self.summary}" if self.summary else ""
        return line + (f", {self.of_cudnns_names} of cuDNN's names of kernels" if self.of_cudnns_names else "")


def command_of(options: argparse.Namespace, program: str) -> list[str]:
    if options.tool == "none":
        return [program]
    command = ["compute-sanitizer", "--tool", options.tool, "--error-exitcode", str(ERROR_EXIT)]
    if not options.all_kernels:
        command += ["--kernel-name", "kns=tandem"]
    for name in options.skip_kernel:
        command += ["--kernel-name-exclude", f"kns={name}"]
    return command + options.tool_option + [program]


def environment_of(options: argparse.Namespace, index: int) -> dict[str, str]:
    environment = dict(os.environ, GTEST_TOTAL_SHARDS=str(options.shards),
                       GTEST_SHARD_INDEX=str(index), GTEST_COLOR="no")
    if options.tool != "none":
        environment.setdefault("TANDEM_TUNE", "off")
        environment.setdefault("TANDEM_TEST_REPEATS", "1")  # tests/support/repeats.h
    return environment


def tests_of(options: argparse.Namespace, program: str) -> list[str]:
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={options.filter}"],
                            check=True, capture_output=True, text=True).stdout
    suite, names = "", []
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return [name for name in names if "DISABLED_" not in name]


def read_shard(shard: Shard, output: str, tests: list[str], has_tool: bool) -> None:
    """`tests`: the shard's."""
    for outcome, name in re.findall(r"^\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+)(?:, .*)? \(\d+ ms\)$", output,
                                    re.MULTILINE):
        {"OK": shard.passed, "FAILED": shard.failed, "SKIPPED": shard.skipped}[outcome].append(name)
    begun = re.findall(RUN, output, re.MULTILINE)
    done = {*shard.passed, *shard.failed, *shard.skipped}
    shard.at = next((name for name in begun if name not in done), "")
    shard.not_run = [name for name in tests if name not in done]
    shard.words = words_of_failures(output, shard.failed)
    summaries = re.findall(r"^=+ ((?:ERROR|RACECHECK) SUMMARY: .*|Internal Sanitizer Error.*)$", output,
                           re.MULTILINE)
    shard.has_verdict = bool(summaries)
    counts = [re.match(r"ERROR SUMMARY: (\d+)", summary) for summary in summaries]
    if all(counts) and not re.search(r"^=+ Error: process", output, re.MULTILINE):
        shard.errors = sum(int(count[1]) for count in counts)
    shard.of_cudnns_names = len(re.findall(OF_CUDNNS_NAMES, output, re.MULTILINE))
    if has_tool:
        shard.reports = words_of_reports(output)
    if has_tool and not summaries:
        # A test under a tool passes whatever the tool has found.
        reports = len(re.findall(REPORT, output, re.MULTILINE))
        summaries = [f"no summary, {reports} report{'' if reports == 1 else 's'} until then"]
    shard.summary = "; ".join(dict.fromkeys(summaries))


def words_of_failures(output: str, failed: list[str]) -> list[str]:
    """The first lines that each of them wrote, from its first failure on where it names one."""
    words = []
    for name in failed:
        said = output.partition(f"[ RUN      ] {name}\n")[2].partition("\n[  FAILED  ] ")[0].splitlines()
        first = next((i for i, line in enumerate(said) if re.search(r":\d+: Failure$", line)), 0)
        words += [f"{name}: {line}" for line in said[first:first + WORDS_OF_A_FAILURE]]
    return words


def shown_words(output: str, pattern: re.Pattern) -> list[str]:
    """The tests' lines in which it is found, each behind its test."""
    words = []
    test = "before its tests"
    for line in output.splitlines():
        if begun := re.match(RUN, line):
            test = begun[1]
        elif pattern.search(line):
            words.append(f"{test}: {line}")
    return words


def words_of_reports(output: str) -> list[str]:
    """The lines of the tool's first reports, each behind the test in whose output it stood."""
    words = []
    test, reports, more = "before its tests", 0, 0
    for line in re.sub(OF_CUDNNS_NAMES, "", output, flags=re.MULTILINE).splitlines():
        if begun := re.match(RUN, line):
            test = begun[1]
        if re.match(REPORT, line):
            reports, more = reports + 1, LINES_BEHIND_A_REPORT
            if reports > REPORTS_OF_A_SHARD:
                break
        elif more and re.match("=+ {2}", line):
            more -= 1
        else:
            more = 0
            continue
        words.append(f"{test}: {re.sub('^=+ ', '', line)}")
    return words


def run_shard(options: argparse.Namespace, program: str, index: int, tests: list[str],
              deadline: float) -> Shard:
    shard = Shard(index)
    begin = time.monotonic()
    if begin >= deadline:
        shard.begun = False
        shard.not_run = tests[index::options.shards]
        return shard
    mark = f"{os.getpid()}.{next(RUNS)}"
    # Not a pipe: what is left behind would hold it open, and reading it would not end.
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "output"
        with output.open("ab") as file:
            process = subprocess.Popen(command_of(options, program) + [f"--gtest_filter={options.filter}"],
                                       env=environment_of(options, index) | {MARK: mark}, stdout=file,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        wait_for(shard, process, f"{MARK}={mark}", output, deadline - begin)
        shard.seconds = time.monotonic() - begin
        said = output.read_text(encoding="utf-8", errors="replace")
        read_shard(shard, said, tests[index::options.shards], options.tool != "none")
        if options.show:
            shard.shown = shown_words(said, options.show)
    return shard


def wait_for(shard: Shard, process: subprocess.Popen, mark: str, output: pathlib.Path,
             limit: float) -> None:
    """`limit`: in seconds, may be infinite."""
    try:
        shard.code = process.wait(None if limit == math.inf else limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the tool starts the program in its turn
        # What its test had started is no fault of a test that was not let end.
        shard.not_killed = left_processes.end(mark, output, grace=0).going_on
        process.poll()
        return
    shard.left_behind, shard.not_killed = left_processes.end(mark, output)


def run_program(options: argparse.Namespace, program: str) -> tuple[bool, str]:
    tests = tests_of(options, program)
    # A shard without a test would have no verdict.
    options = argparse.Namespace(**vars(options) | {"shards": max(1, min(options.shards, len(tests)))})
    begin = time.monotonic()
    deadline = begin + (math.inf if options.limit is None else options.limit)
    with ThreadPoolExecutor(options.jobs) as pool:
        shards = list(pool.map(lambda index: run_shard(options, program, index, tests, deadline),
                               range(options.shards)))
    lines = [shard.text() for shard in shards]
    for kind in ["failed", "skipped", "not_run"]:
        for name in (name for shard in shards for name in getattr(shard, kind)):
            lines.append(f"{kind.replace('_', ' ')}: {name}")
    lines += [words for shard in shards for words in shard.shown]
    lines += [words for shard in shards for words in shard.words]
    lines += [words for shard in shards for words in shard.reports]
    for kind in ["left_behind", "not_killed"]:
        lines += [f"{kind.replace('_', ' ')} of shard {shard.index}: {process}"
                  for shard in shards for process in getattr(shard, kind)]
    passed = sum(len(shard.passed) for shard in shards)
    failed = sum(len(shard.failed) for shard in shards)
    well = bool(tests) and all(shard.is_well() for shard in shards)
    tool, verdict = "", ""
    if options.tool != "none":
        judged = sum(len(shard.passed) for shard in shards if shard.has_verdict)
        tool, verdict = f" under {options.tool}", f", {judged} with the tool's verdict"
    lines.append(f"{pathlib.Path(program).name}{tool}, {options.filter}: {passed} of {len(tests)} passed"
                 f"{verdict}, {failed} failed, in {time.monotonic() - begin:.0f} s"
                 f"{'' if well else '; NOT ALL WELL'}")
    return well, "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--tool", choices=TOOLS, default="none")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="shards at a time")
    parser.add_argument("--shards", type=int, help="of a program, at most one for each test; default: as many as jobs")
    parser.add_argument("--filter", default="*", help="as of --gtest_filter")
    parser.add_argument("--limit", type=float, default=None, metavar="SECONDS",
                        help="for a program, from where its first shards begin")
    parser.add_argument("--all-kernels", action="store_true", help="the libraries' too")
    parser.add_argument("--skip-kernel", action="append", default=[], metavar="NAME",
                        help="none that have this in their names; may be repeated")
    parser.add_argument("--tool-option", action="append", default=[], metavar="OPTION",
                        help="of compute-sanitizer, as --tool-option=--racecheck-num-workers --tool-option=1")
    parser.add_argument("--show", type=re.compile, metavar="REGEX",
                        help="also the lines that tests write in which this is found")
    parser.add_argument("--mps", action="store_true", help="shards share the GPU under MPS")
    parser.add_argument("--out", type=pathlib.Path, help="a file that gets the lines too, appended")
    options = parser.parse_args()
    options.shards = options.jobs if options.shards is None else options.shards
    for name, number in [("jobs", options.jobs), ("shards", options.shards)]:
        if number < 1:
            parser.error(f"--{name} {number}: at least one shard")
    for program in options.programs:
        if not os.access(program, os.X_OK) or os.path.isdir(program):
            parser.error(f"{program}: no program; build the tests first (cmake --build --preset ci)")
    if options.mps and not os.environ.get("TANDEM_TEST_UNDER_MPS"):
        os.execv(WITH_MPS, [str(WITH_MPS), sys.executable, *sys.argv])
    all_well = True
    for program in options.programs:
        well, text = run_program(options, program)
        all_well &= well
        print(text, flush=True)
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
