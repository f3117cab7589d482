#!/usr/bin/env python3
"""provenance_test.py SOURCE: what the scripts of benchmarks/ write of date, commit, card and versions, and
that files from before they did are still read. Programs, mpirun and nvidia-smi are made up."""

import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
CARD = {"name": "Card X", "driver_version": "580.1", "memory.total": "1 MiB",
        "power.limit": "700.00 W", "clocks.max.sm": "1980 MHz"}
NVIDIA_SMI = "#!/bin/sh\n[ -e \"${0%/*}/no_gpu\" ] && exit 9\necho '" + ", ".join(CARD.values()) + "'\n"
DOCTOR = """#!/bin/sh
[ "$1" = doctor ] || exit 1
echo 'ok  machine     x: a processor'
echo 'ok  MPI         Open MPI v4'
echo 'ok  CUDA        driver for CUDA 13.0'
echo 'ok  CUDA SDK    /nvcc'
echo 'ok  cuDNN       9.14.0'
echo '--  NCCL        no libnccl.so.2'
"""
VERSIONS = {"MPI": "Open MPI v4", "CUDA": "driver for CUDA 13.0", "cuDNN": "9.14.0"}
# Writes what `tandem bench` would.
MPIRUN = """#!/bin/sh
while [ "$1" != --json ]; do shift; done
echo '{"step": {"images_per_second": 100}, "phases": {}, "layers": [],
       "memory": {"state_bytes": 1073741824, "activation_bytes": 536870912}}' > "$2"
"""
# A rank of PyTorch's, of weak_scaling_torch.py: in mode compile of two, rank 1 fails beside a rank 0 that
# waits for it, with a line of its own behind what it says; in mode graph it dies without a word of its
# own, and in mode eager at its end, after rank 0 wrote what was found. Mode compile-graph hangs.
TORCH_PYTHON = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out=$2 ;;
    --mode) mode=$2 ;;
    --rank) rank=$2 ;;
    --world) world=$2 ;;
  esac
  shift
done
folder=${out%/*}
[ "$mode" = compile-graph ] && exec sleep 300
if [ "$world$mode$rank" = 2eager1 ]; then
  until [ -e "$out" ]; do sleep 0.05; done
  exit 3
elif [ "$world$rank" = 21 ]; then
  [ "$mode" = compile ] && echo '{"error": "rank 1: ValueError: no room"}' > "$folder/error1.json"
  echo 'a warning'
  exit 1
elif [ "$world" = 1 ] || [ "$mode" = eager ]; then
  echo '{"step": {"images_per_second": 100}, "phases": {}, "versions": {"torch": "2"},
         "memory": {"allocated_bytes": 1073741824, "reserved_bytes": 2147483648}}' > "$folder/new"
  mv "$folder/new" "$out"
fi
[ "$world" = 1 ] || exec sleep 300
"""
SUMS = """#!/bin/sh
echo '{"benchmark": "sums", "bytes": 4}'
echo 'a word'
echo '{"benchmark": "sums", "bytes": 8}'
exit 3
"""


def commit_of(folder: pathlib.Path) -> str | None:
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=folder,
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


class Test(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.scripts = SOURCE / "benchmarks"
        for name, text in {"nvidia-smi": NVIDIA_SMI, "tandem": DOCTOR, "mpirun": MPIRUN,
                           "sums": SUMS, "torch_python": TORCH_PYTHON}.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def run_script(self, name: str, *words) -> subprocess.CompletedProcess:
        environment = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}",
                                    "GIT_CEILING_DIRECTORIES": str(self.folder.parent),
                                    "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([sys.executable, self.scripts / name, *map(str, words)],
                              cwd=self.folder, env=environment, capture_output=True, text=True,
                              check=False)

    def expect_provenance(self, record: dict, commit: str | None, card: dict | None = CARD) -> None:
        age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(
            record["date"])
        self.assertLess(abs(age.total_seconds()), 600)
        self.assertEqual((record["commit"], record["card"], record["versions"]),
                         (commit, card, VERSIONS))

    def weak_scaling(self) -> dict:
        # The program is named as from where the script was started.
        done = self.run_script("weak_scaling.py", "--program", "./tandem", "--rounds", 1, "--ranks",
                               1, 2, "--case", "resnet18,32,128", "--out", "scaling.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| resnet18, 32, 128 |  | 2 | 100 (100 to 100) | 50.0", done.stdout)
        self.assertIn("| resnet18, 32, 128 |  | 2 | 1.500 |", done.stdout)
        return json.loads((self.folder / "scaling.json").read_text())

    def test_weak_scaling(self) -> None:
        record = self.weak_scaling()
        self.expect_provenance(record, commit_of(SOURCE))
        self.assertEqual(len(record["measurements"]), 2)

    def test_weak_scaling_of_pytorch(self) -> None:
        done = self.run_script("weak_scaling_torch.py", "--python", "./torch_python", "--gpus", 1, 2,
                               "--case", "resnet18,32,128", "--mode", "eager", "graph", "compile",
                               "--timeout", 100, "--out", "scaling.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        for row in ("eager | 2 | 100 (100 to 100) | 50.0", "eager | 2 | 1.000 |",
                    "graph | 2 | rank 1 ended with 1: a warning |",
                    "compile | 2 | rank 1: ValueError: no room |"):
            self.assertIn(f"| resnet18, 32, 128 | {row}", done.stdout)
        record = json.loads((self.folder / "scaling.json").read_text())
        self.assertEqual(record["versions"], {"torch": "2"})
        record["versions"] = VERSIONS
        self.expect_provenance(record, commit_of(SOURCE))
        self.assertEqual(len(record["measurements"]), 6)

    def test_a_rank_of_pytorch_that_hangs(self) -> None:
        done = self.run_script("weak_scaling_torch.py", "--python", "./torch_python", "--gpus", 1,
                               "--case", "resnet18,32,128", "--mode", "compile-graph", "--timeout",
                               0)
        self.assertIn("| resnet18, 32, 128 | compile-graph | 1 | took longer than 0 s |", done.stdout)

    def test_outside_a_repository_and_without_a_gpu(self) -> None:
        self.scripts = self.folder / "copy"
        self.scripts.mkdir()
        for script in (SOURCE / "benchmarks").glob("*.py"):
            shutil.copy(script, self.scripts)
        (self.folder / "no_gpu").touch()
        self.expect_provenance(self.weak_scaling(), None, None)

    def test_variants_and_pytorch(self) -> None:
        side = "#!/bin/sh\necho '{}'\nread -r seconds && echo '{\"images_per_second\": 100}'\n"
        (self.folder / "sums").write_text(side)
        for name, words in {"compare_variants.py": ["--variant", "a=./sums"],
                            "compare_gpu.py": ["--program", "./sums", "--modes", ""]}.items():
            # Its table wants more of a program than is made up here.
            self.run_script(name, *words, "--rounds", 1, "--only", "resnet18, 32, 128", "--out",
                            "steps.json")
            record = json.loads((self.folder / "steps.json").read_text())
            self.assertEqual(record["runs"][0]["images_per_second"], 100)
            if name == "compare_gpu.py":
                self.assertEqual(record["versions"], {})
                record["versions"] = record["tandem_versions"]
            self.expect_provenance(record, commit_of(SOURCE))

    def test_lines(self) -> None:
        for _ in range(2):
            done = self.run_script("json_lines.py", "--out", "sums.jsonl", "nice", "./sums")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(len(done.stdout.splitlines()), 3)
        lines = [json.loads(line) for line in (self.folder / "sums.jsonl").read_text().splitlines()]
        self.assertEqual([line.get("bytes") for line in lines], [None, 4, 8] * 2)
        for head in (lines[0], lines[3]):
            self.expect_provenance(head["provenance"], commit_of(SOURCE))
            self.assertEqual(head["provenance"]["command"], "nice ./sums")

    def test_a_command_is_kept_without_folders(self) -> None:
        program = str(self.folder.resolve() / "sums")
        self.run_script("json_lines.py", "--out", "sums.jsonl", "nice", program, f"--out={program}", "a/b")
        head = json.loads((self.folder / "sums.jsonl").read_text().splitlines()[0])
        self.assertEqual(head["provenance"]["command"], "nice sums --out=sums a/b")

    def test_a_program_that_is_not_there(self) -> None:
        done = self.run_script("json_lines.py", "--out", "sums.jsonl", "./none")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "./none cannot be started: No such file or directory\n"))

    def test_files_without_it_are_read(self) -> None:
        old = "results/2026-11-27-nvidia-h200-x4/weak_scaling_resnet18.json"
        done = self.run_script("weak_scaling.py", "--table", SOURCE / "benchmarks" / old)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| resnet18, 32, 128 |  | 4 |", done.stdout)


if __name__ == "__main__":
    unittest.main()
