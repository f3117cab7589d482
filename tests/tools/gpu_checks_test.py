#!/usr/bin/env python3
"""tools/gpu_checks.py with checks that are made up, on a machine without a GPU. Argument: the source tree."""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "tools"))
import gpu_checks  # noqa: E402
from gpu_checks import Check, Schedule  # noqa: E402


def lives(process: int) -> bool:
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status  # else nobody has asked how it ended


class ScheduleTest(unittest.TestCase):
    def run_checks(self, checks: list[Check], gpus: int = 1, seconds: float = 60.0) -> dict[str, dict]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        options = argparse.Namespace(out=self.out, build=self.out, gpus=gpus, seconds=seconds)
        self.began = time.monotonic()
        Schedule(options, list(checks)).run()
        self.took = time.monotonic() - self.began
        written = json.loads((self.out / "checks.json").read_text())["checks"]
        return {each["name"]: each for each in written}

    def test_tells_what_passed_and_what_failed_by_its_last_line(self):
        found = self.run_checks([Check("good", 1, 1, "echo first; echo {gpus} GPU $CUDA_VISIBLE_DEVICES"),
                                 Check("bad", 1, 1, "echo wrong >&2; exit 3"),
                                 Check("set", 1, 1, "test $EXTRA = 1", {"EXTRA": "1"})])
        self.assertEqual((found["good"]["state"], found["good"]["last_line"]), ("passed", "1 GPU 0"))
        self.assertEqual((found["bad"]["state"], found["bad"]["code"], found["bad"]["last_line"]),
                         ("failed", 3, "wrong"))
        self.assertEqual(found["set"]["state"], "passed")
        self.assertEqual((self.out / "good.log").read_text(), "first\n1 GPU 0\n")

    def spans(self, checks: list[tuple[str, int, int]], gpus: int) -> dict[str, list[float]]:
        """When each of (name, GPUs, cores) began and ended."""
        command = ("date +%s.%N > {{out}}/{0}.begin; taskset -cp $$ > {{out}}/{0}.cores; sleep 1; "
                   "date +%s.%N > {{out}}/{0}.end")
        self.found = self.run_checks([Check(name, count, 2, command.format(name), cores=cores)
                                      for name, count, cores in checks], gpus=gpus)
        return {name: [float((self.out / f"{name}.{part}").read_text()) for part in ("begin", "end")]
                for name in self.found}

    def cores_of(self, name: str) -> set[int]:
        found: set[int] = set()
        for part in (self.out / f"{name}.cores").read_text().split(":")[1].split(","):
            first, _, last = part.strip().partition("-")
            found |= set(range(int(first), int(last or first) + 1))
        return found

    def test_what_measures_has_its_gpus_for_itself(self):
        span = self.spans([("a", 1, 0), ("both", 2, 0), ("b", 1, 0), ("c", 1, 0)], gpus=2)
        self.assertEqual([self.found[name]["gpus"] for name in ("a", "both")], [[0], [0, 1]])
        # None behind it on the GPU that is free, or what wants both would wait for all of them.
        self.assertLess(span["a"][1], span["both"][0])
        self.assertLess(span["both"][1], min(span["b"][0], span["c"][0]))
        self.assertLess(max(span["b"][0], span["c"][0]), min(span["b"][1], span["c"][1]))
        self.assertNotEqual(self.found["b"]["gpus"], self.found["c"]["gpus"])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core")
    def test_tests_share_a_gpu_as_far_as_its_cores_go(self):
        cores = os.sched_getaffinity(0)
        span = self.spans([("most", 1, len(cores) - 1), ("one", 1, 1), ("all", 1, len(cores)), ("alone", 1, 0),
                           ("last", 1, 1)], gpus=1)
        self.assertLess(max(span["most"][0], span["one"][0]), min(span["most"][1], span["one"][1]))
        self.assertEqual(self.cores_of("most") | self.cores_of("one"), cores)
        self.assertEqual(self.cores_of("most") & self.cores_of("one"), set())
        # Given back, and not to one behind it.
        self.assertLess(max(span["most"][1], span["one"][1]), span["all"][0])
        self.assertEqual(self.cores_of("all"), cores)
        self.assertLess(span["all"][1], span["alone"][0])
        self.assertEqual(self.cores_of("alone"), cores)
        self.assertLess(span["alone"][1], span["last"][0])

    @unittest.skipIf(len(os.sched_getaffinity(0)) not in (2, 3), "GPUs share cores here if there are fewer than GPUs")
    def test_what_wants_most_of_several_gpus_is_not_overtaken(self):
        small = [(f"small_{i}", 1, 1) for i in range(4)]
        span = self.spans([*small, ("one", 1, 0), ("all", 4, 0), ("behind", 1, 1)], gpus=4)
        self.assertLess(span["all"][1], span["behind"][0])

    def test_what_has_no_time_is_not_begun_and_what_outlasts_it_is_ended_with_its_children(self):
        deaf = ("(trap '' TERM; echo $BASHPID > {out}/deaf; while :; do sleep 0.1; done) & "
                "setsid sh -c 'echo $$ > {out}/apart; exec sleep 600' & sleep 600")
        found = self.run_checks([Check("long", 1, 1, deaf), Check("longer", 1, 100, "true"),
                                 Check("wide", 4, 1, "true")], seconds=3.0)
        self.assertEqual([found[name]["state"] for name in ("long", "longer", "wide")],
                         ["ended", "not begun", "not begun"])
        for name in ("deaf", "apart"):
            self.assertFalse(lives(int((self.out / name).read_text())), name)
        self.assertLess(self.took, 60.0)

    def test_the_table_names_what_is_there(self):
        for check in gpu_checks.CHECKS:
            command = check.command.format(bin="BIN", out="OUT", gpus=check.gpus, jobs=3, left=100)
            for word in command.replace(";", " ").split():
                if word.startswith(("tools/", "benchmarks/", "examples/")):
                    self.assertTrue((SOURCE / word).is_file(), f"{check.name}: {word}")
        names = [check.name for check in gpu_checks.CHECKS]
        self.assertEqual(len(set(names)), len(names))
        told = gpu_checks.__doc__.split("--only ")[1].split(" --")[0].split()
        self.assertEqual([name for name in told if name not in names], [], "in the example")

    def test_takes_patterns_and_leaves_out_what_is_only_for_its_name(self):
        everything = gpu_checks.checks_of(None)
        self.assertEqual([check.name for check in everything if check.by_name], [])
        self.assertGreater(len(everything), 50)
        chosen = gpu_checks.checks_of(["racecheck_folded_one_*", "sums_1"])
        self.assertEqual(len(chosen), 22)
        self.assertTrue(all(check.by_name for check in chosen if check.name != "sums_1"))
        with self.assertRaises(SystemExit) as raised:
            gpu_checks.checks_of(["nothing_*"])
        self.assertIn("--only nothing_*", str(raised.exception.code))


unittest.main()
