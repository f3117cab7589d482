#!/usr/bin/env python3
"""ResNet-18's throughput on several GPUs, one and four ranks on each, weak and strong."""

from placements import measure_figure
from scaling import scaling_figure, scaling_points

MODEL = "resnet18"

if __name__ == "__main__":
    measure_figure(scaling_figure(5, MODEL), lambda options: scaling_points(MODEL, options.gpus))
