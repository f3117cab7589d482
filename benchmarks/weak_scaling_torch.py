#!/usr/bin/env python3
"""Weak scaling of PyTorch's DistributedDataParallel, the counterpart of weak_scaling.py: a process on
each GPU with the same batch each, and the memory that its tensors take.

The step is training_step_torch_gpu.py's, with the model in DDP (gradients are views of its buckets,
which takes the least memory) over NCCL, on one batch of noise that lies on the GPU. One GPU runs without
DDP, which is the base of efficiencies. Needs torch and torchvision, and builds nothing:

    benchmarks/weak_scaling_torch.py --case resnet50,224,256 --gpus 1 2 4 --out scaling_torch.json
    benchmarks/weak_scaling.py --table scaling_torch.json         # only prints what is there

A mode of PyTorch that fails says so in its line, and the others go on."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

from provenance import provenance
from weak_scaling import Case, run_rounds

MODES = ["eager", "graph", "compile", "compile-graph"]


def write(path: pathlib.Path, record: dict) -> None:
    """At once, for the rank may be killed."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(record))
    temporary.replace(path)


def measure_as_rank(options) -> None:
    """One rank of one measurement. Rank 0 writes what was found."""
    case, mode = options.case[0], options.mode[0]
    if mode.endswith("graph"):  # as PyTorch's notes ask for captures with DDP
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from training_step_torch_gpu import Step, versions

    torch.cuda.set_device(options.rank)
    dist.init_process_group("nccl", init_method=f"file://{options.store}", rank=options.rank,
                            world_size=options.world, device_id=torch.device("cuda", options.rank))

    def in_ddp(module):
        return DistributedDataParallel(module, device_ids=[options.rank], gradient_as_bucket_view=True)

    def slowest(value: float) -> float:
        shared = torch.tensor([value], dtype=torch.float64, device="cuda")
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return shared.item()

    step = Step(case.model, case.size, case.batch, case.classes, options.precision, mode,
                in_ddp if options.world > 1 else None)
    chunks, _ = step.chunks(options.seconds, slowest)
    everyones = [None] * options.world
    dist.all_gather_object(everyones, step.facts)
    if options.rank == 0:
        milliseconds = [1e3 * chunk for chunk in chunks]
        write(pathlib.Path(options.out), {
            "step": {"images_per_second": options.world * case.batch / statistics.median(chunks),
                     "milliseconds": statistics.median(milliseconds),
                     "milliseconds_range": [min(milliseconds), max(milliseconds)]},
            "memory": {name: max(facts[name] for facts in everyones)
                       for name in ("allocated_bytes", "reserved_bytes")},
            "phases": {}, "versions": versions()})
    dist.barrier()
    del step  # a captured graph, before the communicators that it calls
    dist.destroy_process_group()


def work(options) -> None:
    try:
        measure_as_rank(options)
    except Exception as error:  # of whatever kind: the table tells it, and other modes go on
        traceback.print_exc()
        text = str(error).strip().splitlines() or [""]
        write(pathlib.Path(options.out).with_name(f"error{options.rank}.json"),
              {"error": f"rank {options.rank}: {type(error).__name__}: {text[0]}"[:400]})
        os._exit(1)  # An orderly end may wait for the other ranks, or for a graph, for ever.


def wait_for(ranks: list[subprocess.Popen], logs: list[pathlib.Path], timeout: float) -> str:
    """Until all have ended, one has failed, which leaves the others waiting for it, or time is up: what is
    wrong if nothing was measured."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        codes = [rank.poll() for rank in ranks]
        for rank, code in enumerate(codes):
            if code:
                words = logs[rank].read_text(errors="replace").strip().splitlines()
                return f"rank {rank} ended with {code}: {words[-1] if words else 'no message'}"[:400]
        if None not in codes:
            return "no rank wrote what it found"
        time.sleep(0.05)
    return f"took longer than {timeout:g} s"


def measure(options, case: Case, mode: str, world: int) -> dict:
    """What rank 0 found, or {"error": what the first rank that failed says}."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = folder / "found.json"
        command = [options.python, __file__, "--store", str(folder / "store"), "--world", str(world),
                   "--case", ",".join(map(str, case)), "--mode", mode, "--out", str(out),
                   "--precision", options.precision, "--seconds", str(options.seconds)]
        logs = [folder / f"log{rank}" for rank in range(world)]
        ranks: list[subprocess.Popen] = []
        try:
            for rank, path in enumerate(logs):
                with path.open("w") as log:
                    ranks.append(subprocess.Popen([*command, "--rank", str(rank)], stdout=log,
                                                  stderr=subprocess.STDOUT))
            wrong = wait_for(ranks, logs, options.timeout)
        finally:
            for rank in ranks:
                rank.kill()
            for rank in ranks:
                rank.wait()
        if out.exists():  # A rank may yet trip over its end, or never reach it.
            return json.loads(out.read_text())
        errors = sorted(folder.glob("error*.json"), key=lambda path: path.stat().st_mtime_ns)
        return json.loads(errors[0].read_text()) if errors else {"error": wrong}


def run(options) -> None:
    record = {**provenance(), "precision": options.precision, "seconds": options.seconds}

    def measure_one(case: Case, mode: str, world: int) -> dict:
        found = measure(options, case, mode, world)
        versions = found.pop("versions", {})
        record["versions"] = record["versions"] or versions
        return found

    run_rounds(options, record, options.mode, measure_one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", type=Case.parse, nargs="+", metavar="MODEL,PX,BATCH",
                        default=[Case("resnet50", 224, 256), Case("resnet18", 32, 128)])
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2, 4], dest="ranks")
    parser.add_argument("--mode", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="bf16")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--python", default=sys.executable, help="with torch and torchvision")
    parser.add_argument("--out", help="JSON file, written after every measurement")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--world", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    work(options) if options.rank is not None else run(options)


if __name__ == "__main__":
    main()
