#!/usr/bin/env python3
"""Makes tests/data/torchvision_rand_augment.safetensors: what torchvision's RandAugment makes of a
small picture, in colour and in gray, by each of its operations.

The picture has smooth shades, edges, noise, near-grays and every level. Tensors are uint8 HWC:
`rgb`, `gray` and, for each of them, an operation, a bin of its magnitude and a sign,
`rgb/ShearX/9/+`. The signs of operations without one are `+`. Magnitudes are those of
RandAugment's own table and signs are applied as it does; the metadata hold the versions, the
processor's capability that torch used (its roundings depend on it) and each magnitude (hexadecimal
floats, before the sign). Needs torch, torchvision, numpy and safetensors.

    python3 tools/make_augment_references.py tests/data
"""

import pathlib
import sys

import numpy
import safetensors.torch
import torch
import torchvision
from torchvision.transforms import v2

HEIGHT, WIDTH = 24, 26
# The default, the strongest, and two whose shears put pixels between two others.
BINS = (4, 9, 20, 30)
ALL_BINS = 31


def picture():
    """A sky over a hill with a dark house, some noise, and a strip of all 256 levels."""
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH].astype(numpy.float64)
    red = 60 + 3.1 * x + 1.7 * y
    green = 110 + 2.3 * x - 1.1 * y
    blue = 225 - 5.0 * y
    hill = y > 15 + 4 * numpy.sin(x / 5)
    red, green, blue = (
        numpy.where(hill, v, c) for v, c in ((70 + 2 * x, red), (140 - x, green), (40 + y, blue))
    )
    house = (abs(x - 20) < 5) & (abs(y - 14) < 5)
    shade = numpy.where((x + y) % 5 < 2, 35.0, 190.0)  # nearly gray bricks
    channels = zip((0, 0, 1), (red, green, blue))
    image = numpy.stack([numpy.where(house, shade + d, c) for d, c in channels], -1)
    image += numpy.random.default_rng(7).normal(0, 4, image.shape)
    image = image.round().clip(4, 250).astype(numpy.uint8)
    levels = numpy.arange(256, dtype=numpy.uint8)
    rows = -(-256 // WIDTH)
    strip = numpy.resize(levels, rows * WIDTH).reshape(rows, WIDTH)
    image[:rows, :, 1] = strip
    image[:rows, ::2, 0] = strip[:, ::2]  # some of it gray
    image[:rows, ::2, 2] = strip[:, ::2]
    return torch.from_numpy(image).permute(2, 0, 1).contiguous()


def flat(image):
    return image.permute(1, 2, 0).clone(memory_format=torch.contiguous_format)


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    policy = v2.RandAugment()
    metadata = {
        "script": "tools/make_augment_references.py",
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }
    colour = picture()
    tensors = {}
    for name, image in {"rgb": colour, "gray": colour[1:2].contiguous()}.items():
        tensors[name] = flat(image)
        for op, (magnitudes_of, signed) in policy._AUGMENTATION_SPACE.items():
            magnitudes = magnitudes_of(ALL_BINS, HEIGHT, WIDTH)
            if magnitudes is None:
                out = policy._apply_image_or_video_transform(
                    image, op, 0.0, interpolation=policy.interpolation, fill=policy._fill
                )
                tensors[f"{name}/{op}/9/+"] = flat(out)
                continue
            metadata[op] = " ".join(float(m).hex() for m in magnitudes)
            for bin_ in BINS:
                for sign in "+-" if signed else "+":
                    magnitude = float(magnitudes[bin_]) * (-1 if sign == "-" else 1)
                    out = policy._apply_image_or_video_transform(
                        image, op, magnitude, interpolation=policy.interpolation, fill=policy._fill
                    )
                    tensors[f"{name}/{op}/{bin_}/{sign}"] = flat(out)
    path = folder / "torchvision_rand_augment.safetensors"
    safetensors.torch.save_file(tensors, path, metadata)
    print(path, len(tensors), path.stat().st_size)


if __name__ == "__main__":
    main()
