#!/usr/bin/env python3
"""left_processes_test.py SOURCE: which processes tools/left_processes.py finds and ends."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1)) / "tools"))
import left_processes  # noqa: E402, of the folder above

MARK = f"TANDEM_LEFT_PROCESSES_TEST={os.getpid()}"
KILL = left_processes.kill


class Test(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = pathlib.Path(folder.name) / "output"
        self.output.touch()
        self.started: list[subprocess.Popen] = []
        self.addCleanup(self.end_all)

    def end_all(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()

    def start(self, seconds: float, marked: bool = True, output: bool = False) -> subprocess.Popen:
        variable, value = MARK.split("=")
        environment = {"PATH": os.environ["PATH"]} | ({variable: value} if marked else {})
        with self.output.open("ab") as file:
            self.started.append(subprocess.Popen(["sleep", str(seconds)], env=environment,
                                                 stdout=file if output else subprocess.DEVNULL))
        return self.started[-1]

    def test_finds_by_mark_and_by_output_what_goes_on(self) -> None:
        marked = self.start(3600)
        holding = self.start(3601, marked=False, output=True)
        self.start(3602, marked=False)
        self.start(0).wait()
        self.assertEqual(left_processes.find(MARK, self.output),
                         {marked.pid: "sleep 3600", holding.pid: "sleep 3601"})
        self.assertEqual(left_processes.find(MARK + "0", self.output), {holding.pid: "sleep 3601"})

    def test_ends_them_and_says_which(self) -> None:
        first, second = self.start(3600), self.start(3601, marked=False, output=True)
        other = self.start(3602, marked=False)
        left = left_processes.end(MARK, self.output, grace=0)
        self.assertEqual(left, ([f"{first.pid} sleep 3600", f"{second.pid} sleep 3601"], []))
        self.assertEqual([first.wait(10), second.wait(10)], [-9, -9])
        self.assertIsNone(other.poll())

    def test_lets_them_end_by_themselves(self) -> None:
        process = self.start(0.3)
        self.assertEqual(left_processes.end(MARK, self.output, grace=60), ([], []))
        self.assertEqual(process.wait(10), 0)

    def test_ends_what_they_start_meanwhile(self) -> None:
        self.start(3600)

        def kill(process: int) -> None:
            if len(self.started) < 4:  # behind the look over all processes, before its own end
                self.start(3600 + len(self.started))
            KILL(process)

        with mock.patch.object(left_processes, "kill", kill):
            left = left_processes.end(MARK, self.output, grace=0)
        self.assertEqual(left.ended, [f"{process.pid} sleep {3600 + i}" for i, process in enumerate(self.started)])
        self.assertEqual([process.wait(10) for process in self.started], [-9] * 4)

    def test_says_which_go_on(self) -> None:
        ends, goes_on = self.start(3600), self.start(3601)

        def kill(process: int) -> None:
            if process != goes_on.pid:
                KILL(process)

        with mock.patch.object(left_processes, "kill", kill):
            left = left_processes.end(MARK, self.output, grace=0, patience=0.3)
        self.assertEqual(left, ([f"{ends.pid} sleep 3600"], [f"{goes_on.pid} sleep 3601"]))


if __name__ == "__main__":
    unittest.main()
