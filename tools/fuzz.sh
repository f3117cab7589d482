#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a while.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: tools/fuzz.sh [--seconds N] [--seed N] [TARGET...]

Builds fuzz/TARGET_fuzz.cpp (by default every one) into build/fuzz with clang and the sanitizers and
runs each for N seconds (default 60), two at a time, from the seeds in fuzz/corpus/TARGET. What
crashes, hangs or allocates more than 64 MiB at once ends the run with an error; the input lies in
build/fuzz/findings then, and runs again as: build/fuzz/bin/fuzz_TARGET FILE

Inputs that reach new code stay in build/fuzz/corpus and are the next run's seeds too.

  --seconds N   of each target
  --seed N      of the mutations (default: another one each time); CI takes one, so that it does not
                fail by chance on what was not changed
  --help        this text
TEXT
}

seconds=60 seed=0 targets=()
while (($# > 0)); do
  case $1 in
    --seconds) seconds=$2 && shift ;;
    --seed) seed=$2 && shift ;;
    --help | -h) usage && exit 0 ;;
    -*) echo "fuzz.sh: unknown option '$1'; see --help" >&2 && exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done

# nvcc does not know the instrumentation, whatever the environment asks for elsewhere.
TANDEM_CUDA=OFF tools/build_preset.sh fuzz fuzz_targets
if ((${#targets[@]} == 0)); then mapfile -t targets <build/fuzz/fuzz_targets.txt; fi

# run_target NAME SECONDS: one target; what it says goes to a log, which is shown where it fails.
run_target() {
  local name=$1 folder=build/fuzz
  mkdir -p "$folder/corpus/$name" "$folder/findings"
  local options=(-max_total_time="$2" -seed="$seed" -max_len=8192 -timeout=10 -rss_limit_mb=1024
    -malloc_limit_mb=64 -print_final_stats=1 -print_funcs=0 -verbosity=0
    -artifact_prefix="$folder/findings/$name-")
  if [[ -f fuzz/$name.dict ]]; then options+=(-dict="fuzz/$name.dict"); fi
  local log=$folder/$name.log
  if ! "$folder/bin/fuzz_$name" "${options[@]}" "$folder/corpus/$name" "fuzz/corpus/$name" \
    >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "fuzz: $name failed; its input is in $folder/findings" && return 1
  fi
  echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $2 s, no finding"
}
export -f run_target
export seed

# Leaks are the business of the asan preset, which runs every test.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1
printf '%s\n' "${targets[@]}" | xargs -P 2 -I {} bash -c 'run_target {} '"$seconds"
