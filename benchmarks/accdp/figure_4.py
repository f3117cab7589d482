#!/usr/bin/env python3
"""ShuffleNetV2's throughput on several GPUs, one and four ranks on each, weak and strong."""

from placements import measure_figure
from scaling import scaling_figure, scaling_points

MODEL = "shufflenet_v2_x1_0"

if __name__ == "__main__":
    measure_figure(scaling_figure(4, MODEL), lambda options: scaling_points(MODEL, options.gpus))
