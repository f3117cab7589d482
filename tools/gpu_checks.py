#!/usr/bin/env python3
"""Runs what only GPUs can check, as much of it as the time allows, on one GPU or side by side on several.

    tools/gpu_checks.py --build build/release --seconds 540 --out checks
    tools/gpu_checks.py --build build/release --gpus 4 --only models layers weak_scaling_4 --out checks
    tools/gpu_checks.py --list

Each of --gpus GPUs has its share of the cores. Tests run beside each other, as many as the cores of their
GPUs allow; what measures, or would fail beside others, has its GPUs and their cores for itself. They begin
in the order of --list as far as there is room; what wants most of a GPU is not overtaken on it. One whose
expected time is not left is not begun, and one that outlasts the time is ended. Each writes OUT/NAME.log,
and what it measures into OUT; OUT/checks.json lists all of them with the commit, the card and the versions.
The last lines are a table: what passed, failed, was ended or not begun. Exit code 1 where anything failed
or was ended.

The build needs the CUDA backend, and the benchmarks (-DTANDEM_BUILD_BENCHMARKS=ON) where these are
asked for; it may come from another machine (tools/pack_build.sh)."""

import argparse
import fnmatch
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
CASES = "tools/device_tests.py --jobs {jobs} --limit {left}"
FAULTS = ("tools/device_tests.py --jobs 6 --limit {left} --show 'the job ended' "
          "{bin}/tests/test_cli_launch_faults_gpu")
UNTUNED = {"TANDEM_TUNE": "off"}
# Told of a card that has no clusters of blocks (tests/device/older_card.cpp). Kernels without them need a build of
# their own (-DCMAKE_CUDA_ARCHITECTURES=80-virtual).
OLDER_CARD = "env LD_PRELOAD={bin}/tests/libtandem_older_card.so TANDEM_OLDER_CARD=A100"
SANITIZER = "compute-sanitizer --tool {tool} --kernel-name kns=tandem --error-exitcode 86"
# As tools/device_tests.py sets it, and patience with ranks that a tool slows down.
UNDER_A_TOOL = {**UNTUNED, "TANDEM_TEST_REPEATS": "1", "TANDEM_TEST_PATIENCE": "10", "TANDEM_START_SECONDS": "120"}
# As tests under CTest have it (CMake's TANDEM_MPI_TEST_ENVIRONMENT).
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}


@dataclass
class Check:
    name: str
    gpus: int
    seconds: int  # on H200s with 16 cores for each, beside others where it shares; mostly seen, else an estimate
    command: str  # with {bin}, {out}, {gpus}, {jobs} (one less than its cores), {left} (seconds)
    environment: dict[str, str] = field(default_factory=dict)
    cores: int = 0  # of each of its GPUs, beside other checks; 0: all of them, and the GPUs for itself
    by_name: bool = False  # it is run where --only names it alone


def tests(name: str, gpus: int, seconds: int, program: str, suites: str, cores: int = 4) -> Check:
    return Check(name, gpus, seconds, f"{{bin}}/tests/{program} --gtest_filter={suites}", cores=cores)


def ranks(name: str, gpus: int, seconds: int, program: str, cores: int = 2, **environment: str) -> Check:
    """A test program of one rank for each GPU."""
    return Check(name, gpus, seconds, f"{MPI} {{bin}}/tests/{program}", environment, cores)


def colocated(name: str, gpus: int, seconds: int, program: str, of_each: int, cores: int | None = None,
              **environment: str) -> Check:
    """A test program of several ranks for each GPU, under MPS."""
    command = f"tests/support/with_mps.sh {MPI.format(gpus=gpus * of_each)} {{bin}}/tests/{program}"
    return Check(name, gpus, seconds, command, environment, cores=of_each if cores is None else cores)


def sanitizer(tool: str, seconds: int) -> Check:
    """Without tests that fill the GPU, beside which others fail, and one that makes no CUDA call, without which a
    tool gives up."""
    programs = "{bin}/tests/test_train_device {bin}/tests/test_train_device_calls"
    return Check(f"{tool}_training", 1, seconds, f"{CASES} --shards 32 --filter=-DeviceMemory*:*SeesNccl --tool {tool} "
                 f"--out {{out}}/{tool}_training.txt {programs}", cores=8)


def sanitizer_of_parts(tool: str, seconds: int) -> Check:
    """Of the shorter programs. memcheck would report the calls that tests make to see them fail."""
    failing = "-*ThatCannotBeOpened*" + (":*FailedCapture*" if tool == "memcheck" else "")
    names = ("optim_cuda", "data_cuda", "train_device_input", "device_cuda", "bench_cuda")
    programs = " ".join([f"{{bin}}/tests/test_{name}" for name in names] + ["{bin}/tests/tandem_parallel_direct_sum_tests"])
    return Check(f"{tool}_parts", 1, seconds, f"{CASES} --shards 8 --filter={failing} --tool {tool} "
                 f"--out {{out}}/{tool}_parts.txt {programs}", cores=4)


def one_rank_under(tool: str, seconds: int, program: str, shards: int = 1) -> list[Check]:
    """What a test program of ranks does in one process: folded ranks, updates in backward."""
    options = " --report-api-errors no" if tool == "memcheck" else ""  # as in ranks_under()
    command = f"mpirun --oversubscribe --bind-to none -n 1 {SANITIZER.format(tool=tool)}{options} {{bin}}/tests/{program}"
    short = program.removeprefix("test_train_").removesuffix("_cuda")
    return [Check(f"{tool}_{short}_one_{shard}", 1, seconds, command,
                  {**UNDER_A_TOOL, "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)}, cores=1, by_name=True)
            for shard in range(shards)]


def ranks_under(tool: str, gpus: int, seconds: int, program: str) -> Check:
    """A test program of two ranks under a tool, on one GPU, which they then share without MPS, or on two. But initcheck
    of 2026.4 ends with signal 11 where processes share memory of one GPU; and NCCL asks CUDA for kernels that it may
    have for this card, at each of which memcheck would report an error."""
    ranks = 1 if tool == "initcheck" and gpus == 1 else 2
    options = " --report-api-errors no" if tool == "memcheck" and gpus > 1 else ""
    command = f"mpirun --oversubscribe --bind-to none -n {ranks} {SANITIZER.format(tool=tool)}{options} {{bin}}/tests/{program}"
    short = program.removeprefix("tandem_parallel_").removeprefix("test_train_").removesuffix("_tests").removesuffix("_cuda")
    return Check(f"{tool}_{short}", gpus, seconds, command, UNDER_A_TOOL, cores=2)


def racecheck_in_shards(shards: int, gpus: int, seconds: int, program: str) -> list[Check]:
    """Of ranks_under(): racecheck gives its verdict when a program ends, and keeps what it has seen until then."""
    whole = ranks_under("racecheck", gpus, seconds, program)
    return [Check(f"{whole.name}_{shard}", gpus, seconds, whole.command,
                  {**whole.environment, "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)}, cores=2)
            for shard in range(shards)]


def plans_under(tool: str, seconds: int) -> Check:
    """The tests that try plans of convolutions, which are of no precision."""
    return Check(f"{tool}_plans", 1, seconds, f"{CASES} --shards 15 --filter=CudaPlanTrialTest*:CudaBorrowedPlanTest* "
                 f"--tool {tool} --out {{out}}/{tool}_plans.txt {{bin}}/tests/test_layers_cuda", cores=4, by_name=True)


def jobs_under(tool: str, seconds: int, program: str, suites: str) -> Check:
    """Tests that start jobs, with the processes of these. Not where they have MPS daemons of their own: what is to end
    such a daemon does not start under a tool."""
    short = program.removeprefix("test_")
    return Check(f"{tool}_{short}", 1, seconds, f"{SANITIZER.format(tool=tool)} --target-processes all "
                 f"{{bin}}/tests/{program} --gtest_filter={suites}", UNDER_A_TOOL, cores=4, by_name=True)


def under_mps_and(tool: str, seconds: int, program: str) -> Check:
    """A test program of two ranks that share a GPU under MPS."""
    short = program.removeprefix("test_train_").replace("device_", "")
    return Check(f"{tool}_{short}_mps", 1, seconds, f"tests/support/with_mps.sh {MPI.format(gpus=2)} "
                 f"{SANITIZER.format(tool=tool)} {{bin}}/tests/{program}", UNDER_A_TOOL, cores=2, by_name=True)


def sums(gpus: int) -> Check:
    """Gradients over four ranks on each GPU, under MPS."""
    return Check(f"sums_{gpus}", gpus, 40, f"benchmarks/json_lines.py --out {{out}}/colocated_all_reduce_{gpus}x4.jsonl "
                 f"tests/support/with_mps.sh {MPI.format(gpus=4 * gpus)} {{bin}}/colocated_all_reduce")


def weak_scaling(gpus: int, seconds: int) -> Check:
    steps = " ".join(str(2**i) for i in range(gpus.bit_length()))
    return Check(f"weak_scaling_{gpus}", gpus, seconds, "benchmarks/weak_scaling.py --program {bin}/tandem "
                 f"--ranks {steps} --mpirun-flag=--oversubscribe --out {{out}}/weak_scaling_{gpus}.json")


def figure(number: int, gpus: int, seconds: int, how: str = "--quick", part: str = "") -> Check:
    """Parts of one figure may be under way at once; plot.py puts their folders together."""
    return Check(f"figure_{number}{part}", gpus, seconds, f"benchmarks/accdp/figure_{number}.py {how} "
                 f"--program {{bin}}/tandem --limit {{left}} --out {{out}}/accdp{part}")


TRAINING = ("train_device", "train_device_input", "train_device_calls", "optim_cuda", "data_cuda", "bench_cuda",
            "device_cuda")
CHECKS = [
    # Tests. First those of several GPUs, which want room on all of them, then the longest.
    tests("placement_4", 4, 60, "test_cli_placement", "*RanksOnFourGpus.*"),
    ranks("data_parallel_4", 4, 60, "test_train_data_parallel_cuda", **UNTUNED),
    colocated("colocated_4", 4, 60, "tandem_parallel_colocated_cuda_tests", 2),
    ranks("data_parallel_2", 2, 120, "test_train_data_parallel_cuda", **UNTUNED),
    tests("placement_2", 2, 40, "test_cli_placement", "*RanksOnTwoGpus.*"),
    ranks("nccl_network_2", 2, 60, "tandem_parallel_nccl_tests",
          NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", NCCL_IB_DISABLE="1"),
    ranks("direct_2", 2, 70, "tandem_parallel_direct_tests"),
    ranks("device_calls_2", 2, 90, "test_train_parallel_device_calls"),
    colocated("colocated_2", 2, 80, "tandem_parallel_colocated_cuda_tests", 2),
    colocated("colocated_direct_2", 2, 80, "tandem_parallel_colocated_cuda_tests", 2, TANDEM_TEST_EXCHANGE="direct"),
    colocated("data_parallel_colocated_2", 2, 70, "test_train_data_parallel_colocated_cuda", 2, **UNTUNED),
    colocated("colocated_calls_2", 2, 30, "test_train_colocated_device_calls", 2),
    # It keeps what it has ended; all tests take longer, some 500 s each. A process takes up to 21 GiB of the host's memory.
    Check("racecheck_models", 1, 400, f"{CASES} --shards 100 --tool racecheck --out {{out}}/racecheck_models.txt "
          "{bin}/tests/test_graph_cuda", cores=7),
    sanitizer("racecheck", 400),
    Check("layers", 1, 180, f"{CASES} --mps {{bin}}/tests/test_layers_cuda", cores=14),
    colocated("folded", 1, 180, "test_train_folded_cuda", 4, **UNTUNED),
    Check("models", 1, 160, f"{CASES} --mps {{bin}}/tests/test_graph_cuda", cores=10),
    sanitizer("synccheck", 160),
    tests("placement", 1, 90, "test_cli_placement", "*RanksOnOneGpu.*"),
    Check("training", 1, 90, f"{CASES} --mps --filter=-DeviceMemory* "
          + " ".join(f"{{bin}}/tests/test_{name}" for name in TRAINING), cores=8),
    *(ranks_under(tool, gpus, 8 * seconds if tool == "racecheck" else seconds, program)
      for gpus, seconds, program in ((2, 30, "tandem_parallel_direct_tests"), (2, 30, "tandem_parallel_nccl_tests"),
                                     (1, 20, "tandem_parallel_colocated_cuda_tests"),
                                     (1, 60, "test_train_data_parallel_colocated_cuda"))
      for tool in ("memcheck", "racecheck", "initcheck", "synccheck")),
    *(ranks_under(tool, 2, 100, "test_train_data_parallel_cuda") for tool in ("memcheck", "initcheck", "synccheck")),
    sanitizer("initcheck", 40),
    sanitizer("memcheck", 40),
    *(sanitizer_of_parts(tool, seconds) for tool, seconds in (
        ("memcheck", 320), ("racecheck", 400), ("initcheck", 200), ("synccheck", 220))),
    ranks("data_parallel", 1, 60, "test_train_data_parallel_cuda", **UNTUNED),
    colocated("colocated", 1, 50, "tandem_parallel_colocated_cuda_tests", 4),
    colocated("data_parallel_colocated", 1, 40, "test_train_data_parallel_colocated_cuda", 4, **UNTUNED),
    colocated("colocated_calls", 1, 30, "test_train_colocated_device_calls", 2),
    tests("ranges", 1, 20, "test_cli_ranges", "*RangesOnAGpu.*"),
    tests("direct_sum", 1, 10, "tandem_parallel_direct_sum_tests", "*"),
    tests("missing_library", 1, 10, "test_cli_missing_library", "*MissingLibraryOnAGpu.*"),
    Check("older_layers", 1, 210, f"{OLDER_CARD} {CASES} --mps {{bin}}/tests/test_layers_cuda", cores=10),
    Check("older_models", 1, 130, f"{OLDER_CARD} {CASES} --mps {{bin}}/tests/test_graph_cuda", cores=12),
    Check("older_training", 1, 50, f"{OLDER_CARD} {CASES} --mps --filter=-DeviceMemory* "
          + " ".join(f"{{bin}}/tests/test_{name}" for name in ("device_cuda", "train_device", "train_device_calls")), cores=10),
    Check("older_folded", 1, 400, f"{OLDER_CARD} tests/support/with_mps.sh {MPI.format(gpus=4)} "
          "{bin}/tests/test_train_folded_cuda", UNTUNED, cores=4),
    *racecheck_in_shards(8, 2, 400, "test_train_data_parallel_cuda"),
    # What would fail beside others: by its time-outs, by counting the GPU's free memory, or by filling it.
    Check("faults_2", 2, 550, f"{FAULTS} --filter=*OnEachGpu*"),
    ranks("nccl_2", 2, 40, "tandem_parallel_nccl_tests", cores=0),
    ranks("allocations_2", 2, 40, "test_train_device_allocations", cores=0),
    colocated("colocated_allocations_2", 2, 60, "test_train_colocated_device_allocations", 2, cores=0),
    Check("faults", 1, 450, f"{FAULTS} --filter=-*OnEachGpu*:*TooLargeBatch*"),
    ranks("allocations", 1, 40, "test_train_device_allocations", cores=0),
    colocated("colocated_allocations", 1, 40, "test_train_colocated_device_allocations", 2, cores=0),
    tests("memory", 1, 20, "test_train_device", "DeviceMemory*", cores=0),
    tests("faults_without_memory", 1, 20, "test_cli_launch_faults_gpu", "*TooLargeBatch*", cores=0),
    # What measures.
    sums(4),
    sums(1),
    weak_scaling(4, 160),
    weak_scaling(2, 120),
    Check("weak_scaling_torch_4", 4, 200, "benchmarks/weak_scaling_torch.py --case resnet18,32,128 --gpus 4 2 1 "
          "--mode graph compile-graph --out {out}/weak_scaling_torch.json"),
    *(figure(number, gpus, seconds, f"--quick --gpus {gpus}", f"_gpus_{gpus}") for number, gpus, seconds in (
        (4, 4, 110), (5, 4, 100), (4, 2, 130), (5, 2, 100), (4, 1, 130), (5, 1, 90))),
    *(figure(1, 1, 400, f"--rounds 1 --seconds 1.5 --sizes {size}", f"_{size}") for size in (32, 224)),
    # With PyTorch's models compiled on that machine before; else a minute more for each case.
    *(Check(f"against_pytorch_{name}", 1, 400, "benchmarks/compare_gpu.py --program {bin}/training_step_gpu "
            f"--modes eager,graph,compile,compile-graph --only {only} --limit {{left}} --out {{out}}/training_step_{name}.json")
      for name, only in (("resnets", "resnet"), ("others", "net_"))),
    Check("tune", 1, 400, "{bin}/tandem tune examples/synthetic/resnet8.toml --set model.name=resnet18 "
          "--set train.precision=bf16 --set train.global_batch=512 --sweep --json {out}/tune.json"),
    figure(8, 1, 240, "--rounds 1 --seconds 3"),
    *(figure(number, 1, 150) for number in (2, 3, 6, 7)),
    # Tools over one process of tests of ranks.
    *(check for tool, seconds in (("memcheck", 100), ("initcheck", 130), ("synccheck", 90))
      for check in one_rank_under(tool, seconds, "test_train_folded_cuda", 21)
      + one_rank_under(tool, 2 * seconds, "test_train_data_parallel_cuda")),
    one_rank_under("memcheck", 60, "test_train_device_allocations")[0],
    *(plans_under(tool, 300 if tool == "racecheck" else 60) for tool in ("memcheck", "racecheck", "initcheck", "synccheck")),
    *(check for tool in ("memcheck", "synccheck")
      for check in (jobs_under(tool, 60, "test_cli_ranges", "*RangesOnAGpu.*"),
                    jobs_under(tool, 60, "test_cli_placement", "*RanksOnOneGpu.*/*_folded"),
                    under_mps_and(tool, 60, "test_train_colocated_device_calls"),
                    under_mps_and(tool, 60, "test_train_colocated_device_allocations"))),
    # A process takes 12 GiB of the host's memory and more.
    *(check for program, shards in (("test_train_folded_cuda", 21), ("test_train_data_parallel_cuda", 12))
      for check in one_rank_under("racecheck", 300, program, shards)),
]


def programs(checks: list[Check]) -> list[str]:
    """Below BUILD/bin, libraries aside; `tandem` first, which tests start."""
    found = {word for check in checks for word in re.findall(r"\{bin\}/([\w/]+)(?![\w/.])", check.command)}
    return ["tandem", *sorted(found - {"tandem"})]


class Run:
    """A check under way, on these cores of these GPUs."""

    def __init__(self, check: Check, cores: dict[int, list[int]], names: list[str], options, end: float):
        self.check, self.cores, self.gpus, self.end = check, cores, sorted(cores), end
        self.log = options.out / f"{check.name}.log"
        self.began = time.monotonic()
        left = max(1, int(end - self.began) - 10)  # a script that is told ends by itself
        command = check.command.format(bin=options.build / "bin", out=options.out, gpus=len(self.gpus),
                                       jobs=max(1, len(cores[self.gpus[0]]) - 1), left=left)
        core_list = ",".join(str(core) for gpu in self.gpus for core in cores[gpu])
        self.mark = f"TANDEM_GPU_CHECK={os.getpid()}.{check.name}"
        environment = {**os.environ, **ENVIRONMENT, **dict([self.mark.split("=")]),
                       "CUDA_VISIBLE_DEVICES": ",".join(names[gpu] for gpu in self.gpus),
                       "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTHONUNBUFFERED": "1", **check.environment}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["taskset", "-c", core_list, "bash", "-c", command], cwd=ROOT, env=environment,
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
        cores = sorted(os.sched_getaffinity(0))
        share = len(cores) // options.gpus
        # Where there is less than a core for each, all have all of them.
        self.share = [cores[gpu * share:(gpu + 1) * share] or cores for gpu in range(options.gpus)]
        self.free = [list(each) for each in self.share]
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.gpus = given.split(",") if given else [str(gpu) for gpu in range(options.gpus)]
        # Once: it starts programs, which would disturb what is measured.
        self.facts = provenance(options.build / "bin" / "tandem")
        self.results: list[dict] = []
        self.running: list[Run] = []

    def fits(self, check: Check) -> bool:
        return check.gpus <= self.options.gpus and time.monotonic() + check.seconds <= self.end

    def wants(self, check: Check) -> int:
        """Cores of each of its GPUs."""
        return min(check.cores or len(self.share[0]), len(self.share[0]))

    def begin(self, check: Check, gpus: list[int]) -> None:
        taken = {gpu: [self.free[gpu].pop(0) for _ in range(self.wants(check))] for gpu in gpus}
        self.waiting.remove(check)
        print(f"{check.name}: begins on GPU {', '.join(map(str, gpus))}", flush=True)
        self.running.append(Run(check, taken, self.gpus, self.options, self.end))

    def collect(self) -> None:
        for run in list(self.running):
            if (result := run.look()) is None:
                continue
            self.running.remove(run)
            for gpu, cores in run.cores.items():
                self.free[gpu] += cores
            self.results.append(result)
            self.write()
            print(f"{result['name']}: {result['state']} after {result['seconds']} s: {result['last_line']}", flush=True)

    def fill(self) -> None:
        """Begins what there is room for. GPUs are kept for one that must wait for most of them: else those behind
        it would begin again and again where it has no room."""
        kept: set[int] = set()
        for check in [each for each in self.waiting if self.fits(each)]:
            open_gpus = sorted(set(range(self.options.gpus)) - kept, key=lambda gpu: -len(self.free[gpu]))
            gpus = sorted(open_gpus[:check.gpus])
            has_room = all(len(self.free[gpu]) >= self.wants(check) for gpu in gpus)
            if len(gpus) == check.gpus and has_room:
                self.begin(check, gpus)
            elif 2 * self.wants(check) > len(self.share[0]):
                kept.update(gpus)

    def run(self) -> None:
        try:
            while self.running or any(self.fits(each) for each in self.waiting):
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
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="the build's folder")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu_checks"), help="a folder for all that is written")
    parser.add_argument("--gpus", type=int, default=1, help="the first so many, of CUDA_VISIBLE_DEVICES where that is set")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for all of it")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names, or patterns such as 'racecheck_folded_*'; what --list "
                        "marks with * is not run otherwise")
    parser.add_argument("--list", action="store_true", help="print the checks and run none")
    parser.add_argument("--programs", action="store_true", help="print the programs that they want of BUILD/bin, and run none")
    options = parser.parse_args()
    options.build, options.out = options.build.resolve(), options.out.resolve()
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None and options.gpus > len(given.split(",")):
        parser.error(f"--gpus {options.gpus}: CUDA_VISIBLE_DEVICES={given} leaves fewer")
    return options


def checks_of(patterns: list[str] | None) -> list[Check]:
    """Throws SystemExit for a pattern that names none."""
    if patterns is None:
        return [check for check in CHECKS if not check.by_name]
    for pattern in patterns:
        if not any(fnmatch.fnmatch(check.name, pattern) for check in CHECKS):
            sys.exit(f"gpu_checks.py: error: --only {pattern}: no check has such a name; --list names them")
    return [check for check in CHECKS if any(fnmatch.fnmatch(check.name, pattern) for pattern in patterns)]


def main() -> int:
    options = parse()
    checks = checks_of(options.only)
    if options.list:
        for check in checks if options.only else CHECKS:
            cores = f"{check.cores} cores" if check.cores else "alone"
            print(f"{check.name + '*' * check.by_name:30} {check.gpus} GPU{'s' if check.gpus > 1 else ' '} {cores:8} {check.seconds:4} s  {check.command}")
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
