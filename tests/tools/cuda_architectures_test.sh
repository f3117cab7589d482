#!/usr/bin/env bash
# cuda_architectures_test.sh SOURCE WORK CMAKE: cmake/Cuda.cmake compiles for the cards that nvidia-smi,
# which is made up, sees, each kind once; without one for 80 and 90.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/made_up_toolkit.sh" "$@"

unset CUDAARCHS
make_toolkit 12.8.93
programs=$work/programs
mkdir "$programs"

# sees STATUS LINE...: what nvidia-smi says of the cards' capabilities, and how it ends.
sees() {
  cat >"$programs/nvidia-smi" <<SH
#!/bin/sh
[ "\$*" = "--query-gpu=compute_cap --format=csv,noheader" ] || exit 99
$(printf 'echo "%s"\n' "${@:2}")
exit $1
SH
  chmod +x "$programs/nvidia-smi"
}

# compiles_for WHAT ARCHITECTURES CARDS [CMake's options]
compiles_for() {
  expect "$1" 0 "$(configure ON -D CMAKE_CUDA_ARCHITECTURES= "${@:4}")"
  expect "$1" "$2" "$(said | sed 's/.*, architectures //')"
  expect "$1" "$3" "$(sed -n 's/^-- cards: //p' "$work/log")"
}

compiles_for "no nvidia-smi" "80-real;90" 0
sees 6 "No devices were found"
compiles_for "no card" "80-real;90" 0
sees 18 "Failed to initialize NVML: Driver/library version mismatch" "NVML library version: 535.183"
compiles_for "an nvidia-smi that fails" "80-real;90" 0
sees 0 9.0
compiles_for "one card" 90-real 1
sees 0 9.0 9.0
compiles_for "two cards of a kind" 90-real 2
sees 0 8.6 12.0 8.6
compiles_for "two kinds" "86-real;120-real" 3
sees 0 7.5 9.0
compiles_for "a card that is too old beside another" 90-real 1
sees 0 7.5 6.1
compiles_for "cards that are too old" "80-real;90" 0
sees 0 8.6 12.0 8.6
compiles_for "given ones" 90 3 -D CMAKE_CUDA_ARCHITECTURES=90
export CUDAARCHS="80-virtual;90-real"
compiles_for "those of the environment" "80-virtual;90-real" 3
compiles_for "given ones rather than those of the environment" 90 3 -D CMAKE_CUDA_ARCHITECTURES=90
