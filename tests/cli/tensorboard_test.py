"""Opens the event files of real runs in the real TensorBoard (package `tensorboard`).

Usage: tensorboard_test.py TANDEM

Trains a small model; ends another run with half a record, as a kill may, and resumes it from an
older checkpoint. What TensorBoard's EventAccumulator and its web server read must be what
metrics.jsonl says.
"""

import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from tensorboard import program
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

CONFIG = """
[model]
name = "resnet8"
[data]
kind = "synthetic"
train_size = 128
test_size = 32
height = 8
width = 8
channels = 1
classes = 4
[train]
epochs = 3
global_batch = 32
threads = 1
log_every = 1
[optimizer]
kind = "sgd"
lr = 0.05
clip_norm = 1.0
[schedule]
kind = "cosine"
[checkpoint]
every_steps = 3
keep = 100
"""

TRAIN = ["loss", "top1", "learning_rate", "gradient_norm", "images_per_second", "data_wait_seconds",
         "exposed_communication_seconds"]
EVALUATION = ["loss", "top1", "top5"]


def train(tandem, folder, run, *arguments):
    subprocess.run([tandem, "train", "run.toml", "--out", run, *arguments], cwd=folder, check=True,
                   timeout=120, stderr=subprocess.DEVNULL)


def recorded(run):
    """Tag -> [(step, value)] of metrics.jsonl."""
    series = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name in {"train": TRAIN, "evaluation": EVALUATION}.get(record["event"], []):
            tag = f"{record['event']}/{name}"
            series.setdefault(tag, []).append((record["step"], record[name]))
    return series


def check(expected, tag, found):
    """`found`: (step, value) of one tag as TensorBoard gives them."""
    assert [step for step, _ in found] == [step for step, _ in expected[tag]], (tag, found)
    for (step, value), (_, wanted) in zip(found, expected[tag]):
        as_float = struct.unpack("f", struct.pack("f", wanted))[0]
        assert math.isclose(value, as_float, rel_tol=1e-6, abs_tol=1e-30), (tag, step, value, wanted)


def check_accumulator(run):
    expected = recorded(run)
    events = EventAccumulator(str(run), size_guidance={"scalars": 0}).Reload()
    assert sorted(events.Tags()["scalars"]) == sorted(expected), events.Tags()
    for tag in expected:
        scalars = events.Scalars(tag)
        check(expected, tag, [(scalar.step, scalar.value) for scalar in scalars])
        times = [scalar.wall_time for scalar in scalars]
        assert times == sorted(times), (tag, times)


def check_server(folder, runs, load_fast):
    board = program.TensorBoard()
    board.configure(argv=[None, "--logdir", str(folder), "--port", "0", "--load_fast", load_fast])
    url = board.launch()
    for run in runs:
        expected = recorded(folder / run)
        for tag in expected:
            query = urllib.parse.urlencode({"run": run, "tag": tag})
            found = served(f"{url}data/plugin/scalars/scalars?{query}", len(expected[tag]))
            check(expected, tag, found)


def served(url, count):
    """(step, value) of a tag. The server answers at once and loads the files meanwhile: until then
    there is no such run, or fewer or superseded values."""
    deadline = time.monotonic() + 30
    while True:
        found = []
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                found = [(step, value) for _, step, value in json.load(answer)]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
        if len(found) == count or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def main():
    tandem = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "run.toml").write_text(CONFIG)
        train(tandem, folder, "runs/whole")
        check_accumulator(folder / "runs/whole")

        # A run of which steps 8 to 10 are done twice, and whose first session ended in a torn record.
        run = folder / "runs/resumed"
        train(tandem, folder, "runs/resumed", "--set", "train.max_steps=10")
        first = min(run.glob("events.out.tfevents.*"))
        with first.open("ab") as file:
            file.write(first.read_bytes()[:30])  # a record of 40 bytes
        checkpoint = run / "checkpoints/step-00000006.safetensors"
        train(tandem, folder, "runs/resumed", "--resume", str(checkpoint), "--set",
              "train.max_steps=9")
        assert [step for step, _ in recorded(run)["train/loss"]] == list(range(1, 10))
        check_accumulator(run)

        train(tandem, folder, "runs/without", "--set", "train.tensorboard=false")
        assert not list((folder / "runs/without").glob("*tfevents*"))
        # Both of TensorBoard's readers: in Python, and where it is installed its data server.
        for load_fast in ("false", "auto"):
            check_server(folder / "runs", ["whole", "resumed"], load_fast)
    print("TensorBoard reads what metrics.jsonl says")


if __name__ == "__main__":
    main()
