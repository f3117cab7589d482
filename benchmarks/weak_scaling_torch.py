#!/usr/bin/env python3
"""Weak scaling of PyTorch's DistributedDataParallel, the counterpart of weak_scaling.py: a process on
each GPU with the same batch each, and the memory that its tensors take.

The step is training_step_torch_gpu.py's, with the model in DDP (gradients are views of its buckets,
which takes the least memory) over NCCL, on one batch of noise that lies on the GPU. Needs torch and
torchvision, and builds nothing:

    benchmarks/weak_scaling_torch.py --case resnet50,224,256 --gpus 1 2 4 --out scaling_torch.json

A mode of PyTorch that fails says so in its line, and the others go on."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from provenance import provenance  # noqa: E402
from weak_scaling import Case, table  # noqa: E402

MODES = ["eager", "graph", "compile", "compile-graph"]


def measured_together(step, seconds: float) -> list[float]:
    """Seconds of one step, means over chunks of about 25 ms, on the slowest rank of each chunk."""
    import torch
    import torch.distributed as dist

    def agreed(value: float) -> float:
        shared = torch.tensor([value], dtype=torch.float64, device="cuda")
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return shared.item()

    steps = min(max(int(0.025 / agreed(step.chunk(3))), 1), 1000)
    chunks, spent = [], 0.0
    while spent < seconds or len(chunks) < 3:
        chunks.append(agreed(step.chunk(steps)))
        spent += steps * chunks[-1]
    return chunks


def work(options) -> None:
    """One rank of one measurement. Rank 0 writes what was found."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from training_step_torch_gpu import Step, versions

    torch.cuda.set_device(options.rank)
    dist.init_process_group("nccl", init_method=f"file://{options.store}", rank=options.rank,
                            world_size=options.world, device_id=torch.device("cuda", options.rank))

    def in_ddp(module):
        return DistributedDataParallel(module, device_ids=[options.rank], gradient_as_bucket_view=True)

    case = options.case[0]
    step = Step(case.model, case.size, case.batch, 1000 if case.size > 64 else 10,
                options.precision, options.mode[0], in_ddp if options.world > 1 else None)
    chunks = measured_together(step, options.seconds)
    everyones = [None] * options.world
    dist.all_gather_object(everyones, step.facts)
    if options.rank == 0:
        milliseconds = [1e3 * chunk for chunk in chunks]
        pathlib.Path(options.out).write_text(json.dumps({
            "step": {"images_per_second": options.world * case.batch / statistics.median(chunks),
                     "milliseconds": statistics.median(milliseconds),
                     "milliseconds_range": [min(milliseconds), max(milliseconds)]},
            "allocated_bytes": max(facts["allocated_bytes"] for facts in everyones),
            "reserved_bytes": max(facts["reserved_bytes"] for facts in everyones),
            "phases": {}, "versions": versions()}))
    dist.barrier()
    del step  # a captured graph, before the communicators that it calls
    dist.destroy_process_group()


def measure(options, case: Case, mode: str, world: int) -> dict:
    """What rank 0 found, or {"error": the last words of one that failed}."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "found.json"
        command = [options.python, __file__, "--store", f"{folder}/store", "--world", str(world),
                   "--case", ",".join(map(str, case)), "--mode", mode, "--out", str(out),
                   "--precision", options.precision, "--seconds", str(options.seconds)]
        logs = [pathlib.Path(folder) / f"rank{rank}" for rank in range(world)]
        ranks = [subprocess.Popen([*command, "--rank", str(rank)], stdout=logs[rank].open("w"),
                                  stderr=subprocess.STDOUT) for rank in range(world)]
        try:
            codes = [rank.wait(options.timeout) for rank in ranks]
        except subprocess.TimeoutExpired:
            return {"error": f"took longer than {options.timeout:g} s"}
        finally:
            for rank in ranks:
                rank.kill()
        if out.exists():  # a rank may yet trip over its end
            return json.loads(out.read_text())
        words = [log.read_text().strip().splitlines()[-1:] for log, code in zip(logs, codes) if code]
        return {"error": next((last[0][:300] for last in words if last), f"exit codes {codes}")}


def memory_table(measurements: list[dict]) -> str:
    lines = ["| model, px, batch of a rank | mode | GPUs | GiB of tensors | reserved |",
             "| --- | --- | --- | --- | --- |"]
    for each in measurements:
        if "error" not in each and each["round"] == 0:
            lines.append(f"| {each['case']} | {each['variant']} | {each['ranks']} | "
                         f"{each['allocated_bytes'] / 2**30:.3f} | {each['reserved_bytes'] / 2**30:.2f} |")
    return "\n".join(lines)


def run(options) -> None:
    measurements: list[dict] = []
    record = {**provenance(), "precision": options.precision, "seconds": options.seconds,
              "measurements": measurements}
    for round_number in range(options.rounds):
        for case in options.case:
            for mode in options.mode:
                for world in options.gpus:
                    found = measure(options, case, mode, world)
                    measurements.append({"case": ", ".join(map(str, case)), "variant": mode,
                                         "ranks": world, "round": round_number, **found})
                    rate = found.get("step", {}).get("images_per_second")
                    told = found["error"] if rate is None else f"{rate:.0f} img/s"
                    print(f"round {round_number + 1}: {case.model} {mode} {world}: {told}",
                          file=sys.stderr, flush=True)
                    if options.out:
                        pathlib.Path(options.out).write_text(json.dumps(record, indent=1) + "\n")
    print(table(measurements))
    print(memory_table(measurements))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", type=Case.parse, nargs="+", metavar="MODEL,PX,BATCH",
                        default=[Case("resnet50", 224, 256), Case("resnet18", 32, 128)])
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2, 4])
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
