#!/usr/bin/env python3
"""Runs what only GPUs can check, as much of it as the time allows, on one GPU or side by side on several.

    tools/gpu_checks.py --build build/release --seconds 540 --out checks
    tools/gpu_checks.py --build build/release --gpus 4 --only models layers weak_scaling_4 --out checks
    tools/gpu_checks.py --list

Checks of one GPU run side by side, one on each of --gpus GPUs with its share of the cores; those of
several GPUs run alone, before them. They begin in the order of --list. One whose expected time is not left
is not begun, and one that outlasts the time is ended. Each writes OUT/NAME.log, and what it measures into
OUT; OUT/checks.json lists all of them with the commit, the card and the versions. The last lines are a
table: what passed, failed, was ended or not begun. Exit code 1 where anything failed or was ended.

The build needs the CUDA backend, and the benchmarks (-DTANDEM_BUILD_BENCHMARKS=ON) where these are
asked for; it may come from another machine (tools/pack_build.sh)."""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import left_processes  # noqa: E402
from provenance import provenance  # noqa: E402

MPI = "mpirun --oversubscribe --bind-to none -n {gpus}"
ON_FOUR_RANKS = f"tests/support/with_mps.sh {MPI.format(gpus=4)}"  # of one GPU
CASES = "tools/device_tests.py --jobs {jobs} --limit {left}"
FAULTS = "tools/device_tests.py --jobs 6 --limit {left} {bin}/tests/test_cli_launch_faults_gpu"
UNTUNED = {"TANDEM_TUNE": "off"}
# As tests under CTest have it (CMake's TANDEM_MPI_TEST_ENVIRONMENT).
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}


@dataclass
class Check:
    name: str
    gpus: int
    seconds: int  # expected on H200s with 16 cores for each; mostly seen, else an estimate
    command: str  # with {bin}, {out}, {gpus}, {jobs} (cores), {left} (seconds)
    environment: dict[str, str] = field(default_factory=dict)


def tests(name: str, gpus: int, seconds: int, program: str, suites: str, **environment: str) -> Check:
    return Check(name, gpus, seconds, f"{{bin}}/tests/{program} --gtest_filter={suites}", environment)


def sanitizer(tool: str, seconds: int) -> Check:
    """DeviceMemory's tests fill the GPU, beside which others fail."""
    programs = "{bin}/tests/test_train_device {bin}/tests/test_train_device_calls"
    return Check(f"{tool}_training", 1, seconds, f"{CASES} --shards 32 --filter=-DeviceMemory* --tool {tool} "
                 f"--out {{out}}/sanitizers.txt {programs}")


def weak_scaling(gpus: int, seconds: int) -> Check:
    ranks = " ".join(str(2**i) for i in range(gpus.bit_length()))
    return Check(f"weak_scaling_{gpus}", gpus, seconds, "benchmarks/weak_scaling.py --program {bin}/tandem "
                 f"--ranks {ranks} --mpirun-flag=--oversubscribe --out {{out}}/weak_scaling_{gpus}.json")


def figure(number: int, gpus: int, seconds: int, more: str = "") -> Check:
    return Check(f"figure_{number}", gpus, seconds, f"benchmarks/accdp/figure_{number}.py --quick "
                 f"--program {{bin}}/tandem --limit {{left}} --out {{out}}/accdp {more}")


CHECKS = [
    tests("placement_4", 4, 60, "test_cli_placement", "*RanksOnFourGpus.*"),
    Check("data_parallel_4", 4, 60, f"{MPI} {{bin}}/tests/test_train_data_parallel_cuda", UNTUNED),
    weak_scaling(4, 180),
    tests("placement_2", 2, 40, "test_cli_placement", "*RanksOnTwoGpus.*"),
    Check("data_parallel_2", 2, 60, f"{MPI} {{bin}}/tests/test_train_data_parallel_cuda", UNTUNED),
    Check("nccl_2", 2, 30, f"{MPI} {{bin}}/tests/tandem_parallel_nccl_tests"),
    Check("nccl_network_2", 2, 40, f"{MPI} {{bin}}/tests/tandem_parallel_nccl_tests",
          {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"}),
    Check("direct_2", 2, 30, f"{MPI} {{bin}}/tests/tandem_parallel_direct_tests"),
    Check("device_calls_2", 2, 30, f"{MPI} {{bin}}/tests/test_train_parallel_device_calls"),
    weak_scaling(2, 120),
    figure(4, 2, 200, "--gpus 1 2"),
    figure(5, 2, 200, "--gpus 1 2"),
    Check("faults_2", 2, 400, f"{FAULTS} --filter=*OnEachGpu*"),
    Check("models", 1, 120, f"{CASES} --mps {{bin}}/tests/test_graph_cuda"),
    Check("training", 1, 60, f"{CASES} --mps --filter=-DeviceMemory* " + " ".join(
        f"{{bin}}/tests/test_{name}" for name in ("train_device", "train_device_input", "train_device_calls",
                                                  "optim_cuda", "data_cuda", "bench_cuda", "device_cuda"))),
    tests("memory", 1, 60, "test_train_device", "DeviceMemory*"),
    tests("ranges", 1, 20, "test_cli_ranges", "*RangesOnAGpu.*"),
    tests("missing_library", 1, 20, "test_cli_missing_library", "*MissingLibraryOnAGpu.*"),
    tests("placement", 1, 60, "test_cli_placement", "*RanksOnOneGpu.*"),
    Check("colocated", 1, 60, f"{ON_FOUR_RANKS} {{bin}}/tests/tandem_parallel_colocated_cuda_tests"),
    Check("data_parallel_colocated", 1, 60,
          f"{ON_FOUR_RANKS} {{bin}}/tests/test_train_data_parallel_colocated_cuda", UNTUNED),
    Check("folded", 1, 60, f"{ON_FOUR_RANKS} {{bin}}/tests/test_train_folded_cuda", UNTUNED),
    Check("layers", 1, 180, f"{CASES} --mps {{bin}}/tests/test_layers_cuda"),
    Check("faults", 1, 300, f"{FAULTS} --filter=-*OnEachGpu*:*TooLargeBatch*"),
    tests("faults_without_memory", 1, 60, "test_cli_launch_faults_gpu", "*TooLargeBatch*"),
    sanitizer("memcheck", 120),
    sanitizer("initcheck", 120),
    sanitizer("synccheck", 120),
    sanitizer("racecheck", 300),
    figure(1, 1, 400),
    figure(8, 1, 240, "--seconds 2"),
    *(figure(number, 1, 150) for number in (2, 3, 6, 7)),
    Check("tune", 1, 130, "{bin}/tandem tune examples/synthetic/resnet8.toml --set model.name=resnet18 "
          "--set train.precision=bf16 --set train.global_batch=512 --json {out}/tune.json"),
    Check("against_pytorch", 1, 420, "benchmarks/compare_gpu.py --program {bin}/training_step_gpu "
          "--modes eager,graph,compile --limit {left} --out {out}/training_step.json"),
]


def programs(checks: list[Check]) -> list[str]:
    """Below BUILD/bin; `tandem` first, which tests start."""
    found = {word for check in checks for word in re.findall(r"\{bin\}/([\w/]+)", check.command)}
    return ["tandem", *sorted(found - {"tandem"})]


class Run:
    """A check under way, on these GPUs and cores."""

    def __init__(self, check: Check, gpus: list[int], names: list[str], cores: list[int], options, end: float):
        self.check, self.gpus, self.end = check, gpus, end
        self.log = options.out / f"{check.name}.log"
        self.began = time.monotonic()
        left = max(1, int(end - self.began) - 10)  # a script that is told ends by itself
        command = check.command.format(bin=options.build / "bin", out=options.out, gpus=len(gpus),
                                       jobs=max(1, len(cores) - 1), left=left)
        self.mark = f"TANDEM_GPU_CHECK={os.getpid()}.{check.name}"
        environment = {**os.environ, **ENVIRONMENT, **dict([self.mark.split("=")]), "CUDA_VISIBLE_DEVICES": ",".join(names[gpu] for gpu in gpus),
                       "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTHONUNBUFFERED": "1", **check.environment}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["taskset", "-c", ",".join(map(str, cores)), "bash", "-c", command], cwd=ROOT, env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def look(self) -> dict | None:
        """What became of it; None while it runs."""
        code = self.process.poll()
        ended = code is None and time.monotonic() > self.end
        if code is None and not ended:
            return None
        self.stop()  # or what it has left behind
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return {"name": self.check.name, "gpus": self.gpus, "seconds": round(time.monotonic() - self.began, 1),
                "state": "ended" if ended else "passed" if code == 0 else "failed", "code": code,
                "last_line": lines[-1][:200] if lines else ""}

    def stop(self) -> None:
        """Ends the whole group, and what it started in sessions of their own, as tests and scripts do."""
        for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
            over = time.monotonic() + patience
            try:
                os.killpg(self.process.pid, number)
                while time.monotonic() < over:
                    self.process.poll()  # else the first of it stays as a zombie
                    os.killpg(self.process.pid, 0)
                    time.sleep(0.05)
            except ProcessLookupError:
                break
        left_processes.end(self.mark, self.log, grace=1.0)


class Schedule:
    def __init__(self, options, checks: list[Check]):
        self.options, self.waiting = options, checks
        self.end = time.monotonic() + options.seconds
        self.cores = sorted(os.sched_getaffinity(0))
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.gpus = given.split(",") if given else [str(gpu) for gpu in range(options.gpus)]
        # Once: it starts programs, which would disturb what is measured.
        self.facts = provenance(options.build / "bin" / "tandem")
        self.results: list[dict] = []
        self.running: list[Run] = []

    def fits(self, check: Check) -> bool:
        return check.gpus <= self.options.gpus and time.monotonic() + check.seconds <= self.end

    def begin(self, check: Check, gpus: list[int]) -> None:
        share = len(self.cores) // self.options.gpus
        cores = self.cores[gpus[0] * share:(gpus[-1] + 1) * share] or self.cores
        self.waiting.remove(check)
        print(f"{check.name}: begins on GPU {', '.join(map(str, gpus))}", flush=True)
        self.running.append(Run(check, gpus, self.gpus, cores, self.options, self.end))

    def collect(self) -> None:
        for run in list(self.running):
            if (result := run.look()) is None:
                continue
            self.running.remove(run)
            self.results.append(result)
            self.write()
            print(f"{result['name']}: {result['state']} after {result['seconds']} s: {result['last_line']}", flush=True)

    def fill(self) -> None:
        """Begins what there is room for: of several GPUs alone, else one on each."""
        used = {gpu for run in self.running for gpu in run.gpus}
        for check in [each for each in self.waiting if self.fits(each)]:
            free = [gpu for gpu in range(self.options.gpus) if gpu not in used]
            if check.gpus > 1 and not used:
                self.begin(check, free[:check.gpus])
                return
            if check.gpus == 1 and free and not any(each.gpus > 1 for each in self.waiting if self.fits(each)):
                self.begin(check, free[:1])
                used.add(free[0])

    def run(self) -> None:
        try:
            while self.running or any(self.fits(each) for each in self.waiting):
                if not any(len(run.gpus) > 1 for run in self.running):
                    self.fill()
                time.sleep(0.2)
                self.collect()
        finally:
            for run in self.running:
                run.stop()
        self.results += [{"name": each.name, "state": "not begun", "seconds": 0,
                          "last_line": f"it takes {each.seconds} s on {each.gpus} GPUs"} for each in self.waiting]
        self.write()

    def write(self) -> None:
        facts = {**self.facts, "checks": self.results}
        (self.options.out / "checks.json").write_text(json.dumps(facts, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [check.name for check in CHECKS]
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="the build's folder")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu_checks"), help="a folder for all that is written")
    parser.add_argument("--gpus", type=int, default=1, help="the first so many, of CUDA_VISIBLE_DEVICES where that is set")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for all of it")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names)
    parser.add_argument("--list", action="store_true", help="print the checks and run none")
    parser.add_argument("--programs", action="store_true", help="print the programs that they want of BUILD/bin, and run none")
    options = parser.parse_args()
    options.build, options.out = options.build.resolve(), options.out.resolve()
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None and options.gpus > len(given.split(",")):
        parser.error(f"--gpus {options.gpus}: CUDA_VISIBLE_DEVICES={given} leaves fewer")
    return options


def main() -> int:
    options = parse()
    checks = [check for check in CHECKS if check.name in options.only]
    if options.list:
        for check in checks:
            print(f"{check.name:20} {check.gpus} GPU{'s' if check.gpus > 1 else ' '} {check.seconds:4} s  {check.command}")
        return 0
    if options.programs:
        print("\n".join(programs(checks)))
        return 0
    if not (options.build / "bin" / "tandem").is_file():
        print(f"gpu_checks.py: {options.build}/bin/tandem: no such program; build first, or name a build by --build",
              file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and end what runs
    schedule = Schedule(options, checks)
    try:
        schedule.run()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print()
    for result in schedule.results:
        print(f"{result['name']:20} {result['state']:9} {result['seconds']:6} s  {result['last_line']}")
    return 1 if any(result["state"] in ("failed", "ended") for result in schedule.results) else 0


if __name__ == "__main__":
    sys.exit(main())
