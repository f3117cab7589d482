#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into fuzz/corpus. Needs Pillow for the JPEGs (made with
Pillow 13); the rest is the standard library's. Run it again only where a format changes."""
import gzip
import io
import json
import pathlib
import struct

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent
CORPUS = ROOT / "corpus"


def put(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def idx(rank, extents, values):
    return struct.pack(">I", 0x0800 | rank) + struct.pack(f">{rank}I", *extents) + bytes(values)


def two_files(labels, images):
    return struct.pack("<H", len(labels)) + labels + images


def safetensors(tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, shape in tensors:
        count = 1
        for extent in shape:
            count *= extent
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += struct.pack(f"<{count}f", *[0.25 * (i % 7) for i in range(count)])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def jpeg(mode, **options):
    out = io.BytesIO()
    pixels = bytes((x * 5 + y * 3) % 256 for y in range(12) for x in range(10))
    Image.frombytes("L", (10, 12), pixels).convert(mode).save(out, "JPEG", quality=40, **options)
    return out.getvalue()


def exif(orientation):
    entry = struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
    return b"Exif\0\0MM\0*\0\0\0\x08\0\x01" + entry + b"\0\0\0\0"


labels, images = idx(1, [2], [3, 7]), idx(3, [2, 3, 2], range(12))
put("idx", "plain", two_files(labels, images))
put("idx", "colour", two_files(labels, idx(4, [2, 2, 1, 3], range(12))))
put("idx", "gzip", two_files(gzip.compress(labels, mtime=0), gzip.compress(images, mtime=0)))
put("cifar", "cifar10", bytes([4]) + bytes(3072))
put("cifar", "cifar100", bytes([4, 77]) + bytes(3072))
put("jpeg", "colour.jpg", jpeg("RGB"))
put("jpeg", "gray.jpg", jpeg("L"))
put("jpeg", "ink.jpg", jpeg("CMYK"))
put("jpeg", "progressive.jpg", jpeg("RGB", progressive=True))
put("jpeg", "turned.jpg", jpeg("RGB", exif=exif(6)))
weights = [("conv1.weight", [2, 1, 3, 3]), ("bn1.weight", [2]), ("bn1.bias", [2]),
           ("bn1.running_mean", [2]), ("bn1.running_var", [2]), ("fc.weight", [2, 2]), ("fc.bias", [2])]
learnt = [each for each in weights if "running" not in each[0]]
momentum = [("optimizer.momentum." + name, [2, 3, 3, 1] if len(shape) == 4 else shape) for name, shape in learnt]
position = {"format": "tandem-checkpoint-1", "model": "tiny", "optimizer": "sgd", "optimizer_steps": "3",
            "step": "3", "steps_per_epoch": "4", "batches": "3", "evaluated_step": "0",
            "best_top1": "0.5", "seed": "1", "global_batch": "4", "samples": "16"}
put("checkpoint", "sound", safetensors(weights + momentum, position))
put("checkpoint", "weights", safetensors(weights, {}))
put("safetensors", "weights", safetensors(weights, {"made": "by hand"}))
put("safetensors", "empty", safetensors([], {}))
start = {"event": "start", "date": "2026-01-01T00:00:00Z", "ranks": 2}
steps = [{"event": "train", "step": step, "loss": 2.5} for step in (5, 10, 15)]
put("metrics", "records", b"".join(json.dumps(each).encode() + b"\n" for each in [start, *steps]))
put("metrics", "torn", b'{"event":"train","step":1}\n{"event":"tr')
for name in ("resnet8", "resnet50"):
    put("model_file", name, (ROOT.parent / "models" / f"{name}.toml").read_bytes())
put("run_file", "synthetic", b"""[model]
name = "resnet8"
[data]
kind = "synthetic"
train_size = 96
test_size = 37
mean = 0.5
[data.augment]
crop_padding = 2
flip = true
[train]
epochs = 2
global_batch = 16
[optimizer]
kind = "sgd"
lr = 0.05
momentum = 0.9
[schedule]
kind = "cosine"
warmup_epochs = 0.5
[checkpoint]
every_steps = 5
[parallel]
bucket_mib = 4
""")
