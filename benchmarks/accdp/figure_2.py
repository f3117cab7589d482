#!/usr/bin/env python3
"""The speed-up of four ranks on a GPU over one at 32 px, with its controls."""

from placements import measure_figure
from speedup import speedup_figure, speedup_points

if __name__ == "__main__":
    measure_figure(speedup_figure(2, 32), lambda options: speedup_points(32, options.models))
