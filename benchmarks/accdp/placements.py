"""What the figures share: a placement of ranks, one run of it, and a figure's raw file.

A figure is a list of points. They are measured in rounds, each point once a round, so that a slow
moment of the machine hits all of them; plot.py takes medians. A run is `tandem bench` under `tandem
launch`, or, time-sliced, under plain mpirun. A run that fails is a record with an error; nothing is
tried twice. The raw file is written anew after every run, so that what was measured is kept.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

sys.path.append(str(HERE.parent))
from provenance import CARD, doctor_lines, query_cards, query_commit, query_date  # noqa: E402

MODELS = ["resnet18", "resnet34", "resnet50", "shufflenet_v2_x1_0", "mobilenet_v2"]
BATCH = {32: 128, 224: 64}  # of a rank, by image size

# The controls beside every co-location, at the same global batch.
WHOLE = "one rank, whole batch"
FOLDED = "folded ranks"
MPS = "processes, MPS"
SLICED = "processes, time-sliced"


@dataclasses.dataclass(frozen=True)
class Placement:
    """Ranks on devices. `how`: "processes" or "folded", by `tandem launch`, or "time-sliced"."""

    ranks_per_gpu: int = 1
    how: str = "processes"
    sm_percent: int = 0
    gpus: int = 1

    @property
    def processes(self) -> int:
        return self.gpus * (1 if self.how == "folded" else self.ranks_per_gpu)


@dataclasses.dataclass(frozen=True)
class Point:
    """One run of a figure: which panel, which line or bar, where on the x axis."""

    series: str
    x: str | int
    model: str
    size: int
    global_batch: int
    placement: Placement = Placement()
    panel: str = ""
    workers: int = 1  # data.workers of each process
    settings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Figure:
    """`number`: AccDP's, or a name for what it has no figure of. `fields`: what of a run is shown,
    by the name that is put behind the series' ("" for none). `relative_to`: the series whose values
    the others are divided by, where the figure shows speed-ups."""

    number: int | str
    title: str
    x_label: str
    y_label: str
    kind: str  # "bars" or "lines"
    fields: dict[str, str] = dataclasses.field(
        default_factory=lambda: {"": "step_images_per_second"})
    relative_to: str | None = None


def controls(ranks: int, gpus: int = 1) -> dict[str, Placement]:
    """k ranks on each GPU in every way, by the series' names; one rank carries the whole batch."""
    placements = {WHOLE: Placement(gpus=gpus)}
    if ranks > 1:
        placements[FOLDED] = Placement(ranks, "folded", gpus=gpus)
        placements[MPS] = Placement(ranks, "processes", gpus=gpus)
        placements[SLICED] = Placement(ranks, "time-sliced", gpus=gpus)
    return placements


def data_text(options, point: Point) -> str:
    """CIFAR's augmentation of images made from nothing, or ImageNet's of JPEGs."""
    if options.photos:
        return f"""kind = "folder"
path = "{options.photos.resolve()}"
size = {point.size}
workers = {point.workers}
[data.augment]
random_resized_crop = true
flip = true
"""
    return f"""kind = "synthetic"
train_size = {2 * point.global_batch}
test_size = {point.placement.processes * point.placement.ranks_per_gpu}
height = {point.size}
width = {point.size}
channels = 3
classes = {1000 if point.size > 64 else 10}
workers = {point.workers}
[data.augment]
crop_padding = {max(1, point.size // 8)}
flip = true
"""


def config_text(options, point: Point) -> str:
    return f"""[model]
name = "{point.model}"
[data]
{data_text(options, point)}[train]
epochs = 1
global_batch = {point.global_batch}
device = "{options.device}"
precision = "{options.precision}"
[optimizer]
kind = "sgd"
lr = 0.01
momentum = 0.9
weight_decay = 1e-4
"""


def visible_gpus(count: int) -> str:
    """CUDA_VISIBLE_DEVICES for the first GPUs that this process sees."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = seen.split(",") if seen else [str(i) for i in range(count)]
    return ",".join(names[:count])


def command_of(options, point: Point, config: pathlib.Path,
               result: pathlib.Path) -> tuple[list[str], dict[str, str]]:
    """The command line, and what it needs in the environment."""
    placement = point.placement
    bench = ["bench", str(config), "--rates-only", "--seconds", str(options.seconds),
             "--json", str(result)]
    for setting in (*point.settings, *options.set):
        bench += ["--set", setting]
    environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if placement.how == "time-sliced":
        if options.device == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = visible_gpus(placement.gpus)
        return ["mpirun", "-n", str(placement.processes), "--bind-to", "none", "--oversubscribe",
                options.program, *bench], environment
    launch = [options.program, "launch", "--ranks-per-gpu", str(placement.ranks_per_gpu),
              "--colocation", placement.how,
              "--gpus", "none" if options.device == "cpu" else str(placement.gpus)]
    if options.device == "cpu":
        launch.append("--oversubscribe")
    if placement.sm_percent:
        launch += ["--sm-percent", str(placement.sm_percent)]
    return [*launch, "--", *bench], environment


def end_group(process: subprocess.Popen) -> None:
    """Lets it clean up, then insists: the launcher takes a second SIGTERM for 'now'."""
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=5)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def run_command(command: list[str], environment: dict[str, str], timeout: float) -> tuple[int, str]:
    """Exit code (None: it took too long) and what it printed."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, **environment})
        try:
            code = process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            end_group(process)
            code = None
        except BaseException:  # Ctrl-C
            end_group(process)
            raise
        output.seek(0)
        return code, output.read().decode(errors="replace")


def last_words(printed: str) -> str:
    lines = [line for line in printed.strip().splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    return (errors or lines or ["no message"])[0 if errors else -1]


def rates_of(bench: dict) -> dict:
    """Of bench's JSON what figures are made of."""
    gpu = bench.get("gpu")
    if not isinstance(gpu, dict):  # CPUs, or too short to tell
        gpu = {}
    return {
        "step_images_per_second": bench["step"]["images_per_second"],
        "training_images_per_second": bench["with_loader"]["images_per_second"],
        "loader_images_per_second": bench["loader"]["images_per_second"],
        "step_seconds_range": bench["step"]["step_seconds_range"],
        "device": bench["device"], "communicator": bench["communicator"],
        "device_bytes": bench["memory"]["device_bytes"],
        "sm_activity": gpu.get("sm_activity", "unavailable"),
        "dram_activity": gpu.get("dram_activity", "unavailable"),
        "joules_per_1000_images": gpu.get("joules_per_1000_images", "unavailable"),
    }


def measure(options, point: Point) -> dict:
    """One run: its rates, or {"error": ...}; the seconds that it took with its start."""
    with tempfile.TemporaryDirectory(prefix="tandem-accdp-") as folder:
        config = pathlib.Path(folder) / "run.toml"
        config.write_text(config_text(options, point))
        result = pathlib.Path(folder) / "bench.json"
        command, environment = command_of(options, point, config, result)
        began = time.monotonic()
        code, printed = run_command(command, environment, options.timeout)
        record = {"seconds": round(time.monotonic() - began, 2)}
        if code is None:
            return record | {"error": f"took longer than {options.timeout:.0f} s"}
        if code != 0:
            return record | {"error": last_words(printed)}
        return record | rates_of(json.loads(result.read_text()))


def environment_of(program: str | None) -> dict:
    """Date, commit, cards, driver, and the versions that `tandem doctor` finds."""
    wanted = ("machine", "oneDNN", "MPI", "CUDA ", "cuDNN", "NCCL", "MPS", "backends")
    return {
        "date": query_date(),
        "commit": query_commit(),
        "cards": [", ".join(card) for card in query_cards(CARD[:4])],
        "program": [line[4:] for line in doctor_lines(program) if line[4:].startswith(wanted)],
    }


class RawFile:
    """A figure's JSON: what it shows, where and when it was measured, every point's runs."""

    def __init__(self, folder: pathlib.Path, name: str, figure: dict, environment: dict):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.json"
        self.data = {"figure": figure, "environment": environment, "points": []}

    def add(self, key: dict, run: dict) -> None:
        for each in self.data["points"]:
            if all(each[name] == value for name, value in key.items()):
                each["runs"].append(run)
                break
        else:
            self.data["points"].append(key | {"runs": [run]})
        temporary = self.path.with_suffix(".json.tmp")
        temporary.write_text(json.dumps(self.data, indent=1) + "\n")
        temporary.replace(self.path)


def parse_options(figure: Figure, models: list[str]) -> argparse.Namespace:
    title = f"AccDP's figure {figure.number}: " if isinstance(figure.number, int) else ""
    parser = argparse.ArgumentParser(description=title + figure.title)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/tandem"))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda",
                        help="cpu: ranks of this host in place of a GPU's, and a tiny model")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2, 4],
                        help="numbers of GPUs of the scaling figures")
    parser.add_argument("--precision", default=None, help="default bf16; on a CPU fp32")
    parser.add_argument("--quick", action="store_true",
                        help="one round of short runs and fewer points")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=None, help="of tandem bench")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one run")
    parser.add_argument("--limit", type=float, default=1e9,
                        help="seconds after which no further run is begun")
    parser.add_argument("--models", nargs="+", choices=models, default=models,
                        help="where models are compared: these alone")
    parser.add_argument("--sizes", type=int, nargs="+", choices=list(BATCH), default=list(BATCH),
                        help="where image sizes are compared: these alone")
    parser.add_argument("--batches", type=int, nargs="+",
                        help="of figure 1: one rank with these alone, at each of --sizes")
    parser.add_argument("--folded", type=int, default=4,
                        help="of the folded ranks' figure: how many share its batch")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="of every run, for instance train.side_stream=\"never\"; repeatable")
    parser.add_argument("--photos", type=pathlib.Path, metavar="FOLDER",
                        help="JPEGs (train/CLASS/*.jpg, validation/CLASS/*.jpg), at least a global "
                        "batch of them, in place of synthetic images: for figure 8")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("accdp"),
                        help="folder of the raw files")
    options = parser.parse_args()
    if not shutil.which(options.program):
        parser.error(f"--program {options.program}: no such program; build it first (docs/install.md)")
    if options.batches and figure.number != 1:
        parser.error("--batches: of figure 1 alone")
    if options.folded < 1 or any(4 * batch % options.folded for batch in BATCH.values()):
        parser.error(f"--folded {options.folded}: does not divide the batch; take 1, 2, 4, 8, 16, ...")
    options.rounds = options.rounds or (1 if options.quick else 3)
    if options.seconds is None:
        # The GPU's counters want half a second at least. A loader's workers end batches in bunches.
        shortest = 0.3
        if "sm_activity" in figure.fields.values():
            shortest = 0.7
        if "loader_images_per_second" in figure.fields.values():
            shortest = 3.0
        options.seconds = shortest if options.quick else 2.0
    if options.device == "cpu":
        options.gpus = [1]
        options.precision = options.precision or "fp32"
        options.seconds = min(options.seconds, 0.1) if options.quick else options.seconds
    options.precision = options.precision or "bf16"
    return options


def on_a_cpu(point: Point) -> Point:
    """The same placement of a run that a few cores do in a moment."""
    return dataclasses.replace(point, model="resnet8", size=8,
                               global_batch=max(8, point.global_batch // 8))


def measure_figure(figure: Figure, points_of, models: list[str] = MODELS) -> None:
    """Parses the command line, measures points_of(options) and writes figure_N.json. Ends with code 1 where
    nothing was measured."""
    options = parse_options(figure, models)
    points: list[Point] = points_of(options)
    if options.device == "cpu":
        points = [on_a_cpu(point) for point in points]
        title = "test of the script with a tiny model on CPU ranks"
        figure = dataclasses.replace(figure, title=title)
    facts = dataclasses.asdict(figure) | {
        "device": options.device, "precision": options.precision, "rounds": options.rounds,
        "seconds": options.seconds, "settings": options.set,
        "images": "photos" if options.photos else "synthetic"}
    raw = RawFile(options.out, f"figure_{figure.number}", facts, environment_of(options.program))
    began = time.monotonic()
    for round_number in range(options.rounds):
        for point in points:
            spent = time.monotonic() - began
            if spent > options.limit:
                found = {"error": f"not begun: {spent:.0f} s were over"}
            else:
                found = measure(options, point)
            raw.add(dataclasses.asdict(point), {"round": round_number} | found)
            where = [str(word) for word in (point.panel, point.x, point.series) if word]
            told = found.get("error") or f"{found['step_images_per_second']:.0f} img/s"
            print(f"{time.monotonic() - began:5.0f} s  figure {figure.number}, round "
                  f"{round_number + 1}: {', '.join(where)}: {told}",
                  file=sys.stderr, flush=True)
    if all("error" in run for point in raw.data["points"] for run in point["runs"]):
        sys.exit(1)
    print(f"{raw.path}: plot.py draws it")
