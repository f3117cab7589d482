#!/usr/bin/env bash
# tools/build_preset.sh [--cuda-for-seen-gpus] PRESET [TARGET...]: configures where needed, then builds
# what changed. TANDEM_CUDA=ON or OFF in the environment builds with the CUDA backend or without;
# --cuda-for-seen-gpus leaves it out of a first build where neither is said and no GPU is seen, until one is:
# its kernels take several times as long to compile as all the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for_seen_gpus=false
if [[ ${1:-} == --cuda-for-seen-gpus ]]; then for_seen_gpus=true && shift; fi
preset=$1
targets=("${@:2}")
folder=build/$preset
if ((${#targets[@]} == 0)); then targets=(all); fi
gpus=$({ nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } |
  grep -x '[0-9]*\.[0-9]*' | sort || true)

settings=()
cuda_as_wanted=true
left_out=$folder/cuda_left_out # by this script
if [[ -n ${TANDEM_CUDA:-} ]]; then
  settings+=("-DTANDEM_CUDA=$TANDEM_CUDA")
  grep -qs "^TANDEM_CUDA:.*=$TANDEM_CUDA$" "$folder/CMakeCache.txt" || cuda_as_wanted=false
  rm -f "$left_out"
elif [[ -f $left_out && -n $gpus ]]; then
  settings+=(-DTANDEM_CUDA=AUTO)
  cuda_as_wanted=false
  rm "$left_out"
elif [[ $for_seen_gpus == true && -z $gpus && ! -f $folder/build.ninja ]] && command -v nvcc >/dev/null; then
  settings+=(-DTANDEM_CUDA=OFF)
  mkdir -p "$folder"
  touch "$left_out"
fi
if [[ -f $left_out ]]; then
  echo "No GPU is seen: the CUDA backend is left out until one is; TANDEM_CUDA=ON in the environment builds it too."
fi

# CMake runs again by itself when a CMake file changes. The presets escape it, and so does what is
# installed later: as long as tests are left out, it may be what they lack; and the CUDA backend is
# built once its headers are there. Cards that are seen now and were not then have tests, and maybe an
# architecture, of their own; where there are none any more, as on a cluster's login node, the build stays.
new_gpus=false
if [[ -n $gpus && $gpus != "$(cat "$folder/gpus_seen" 2>/dev/null)" ]]; then new_gpus=true; fi
if [[ ! -f $folder/build.ninja || $cuda_as_wanted == false || $new_gpus == true ||
  CMakePresets.json -nt $folder/build.ninja ||
  -s $folder/tests_left_out || build/cudnn_frontend/version -nt $folder/build.ninja ]]; then
  echo "Configuring $folder (preset $preset)"
  mkdir -p "$folder"
  if ! cmake --preset "$preset" "${settings[@]}" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    exit 1
  fi
  sed -n 's/^-- \(CUDA backend\)/\1/p' "$folder/configure.log"
  touch "$folder/build.ninja"
  echo "$gpus" >"$folder/gpus_seen"
fi

# nproc alone would say what OMP_NUM_THREADS in the environment leaves.
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
echo "Build: $folder, ${targets[*]}, on $cores cores"
cmake --build "$folder" --parallel "$cores" --target "${targets[@]}"
