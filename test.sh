#!/usr/bin/env bash
# Installs, builds and runs every test that this machine can run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'TEXT'
Usage: ./test.sh [--sanitize address,undefined|thread]

Installs the packages that are missing, builds into build/ci with warnings as errors, and runs all
tests. Safe to run again: what is installed and built is left as it is.

  --sanitize address,undefined   builds into build/asan instead, runs the unit and MPI tests
  --sanitize thread              builds into build/tsan instead, runs the unit and MPI tests
  --help                         this text
TEXT
}

preset=ci
while (($# > 0)); do
  case $1 in
    --sanitize)
      case ${2:-} in
        address,undefined) preset=asan ;;
        thread) preset=tsan ;;
        *) echo "test.sh: --sanitize takes address,undefined or thread" >&2 && exit 2 ;;
      esac
      shift
      ;;
    --help | -h) usage && exit 0 ;;
    *) echo "test.sh: unknown option '$1'; see --help" >&2 && exit 2 ;;
  esac
  shift
done

# How many GPU tests were left out, a program's cases counted as where they run, one by one. Listing
# them needs no GPU.
count_gpu_tests_left_out() {
  local line cases count=0
  while read -r line; do
    if [[ $line == "cases of "* ]]; then
      cases=$("build/$preset/bin/tests/${line#cases of }" --gtest_list_tests) || return
      count=$((count + $(grep -c '^  ' <<<"$cases" || true)))
    else
      count=$((count + 1))
    fi
  done <"build/$preset/gpu_tests_left_out"
  echo "$count"
}

# What failed, again: of five tests, the first lines around each failed assertion, error and signal, where
# hundreds of lines may lie above and mpirun's own below; of one that says nothing of the kind, its last lines.
why_failed() {
  awk '
    function end_test() {
      if (failed && left == most) for (i = lines > 8 ? lines - 7 : 1; i <= lines; ++i) print "  " line[i]
      failed = 0
    }
    BEGIN { most = 40 }
    /^ *[0-9]+\/[0-9]+ Test / || /^ *Start +[0-9]+:/ || /^[0-9]+% tests passed/ {
      end_test()
      if (/\*\*\*/ && ++tests <= 5) { print; failed = 1; left = most; around = lines = 0 }
      next
    }
    failed && NF { line[++lines] = $0 }
    /Failure$/ || /error: / || /[Ss]ignal/ || /Sanitizer/ { around = 8 }
    failed && left > 0 && (around > 0 || /\[  FAILED  \]/) { print "  " $0; --left; --around }
  ' "$1"
}

echo "== 1/3 Packages"
tools/install_dependencies.sh
echo "== 2/3 Build"
tools/build_preset.sh "$preset"
echo "== 3/3 Tests"
log=build/$preset/test.log
status=0
ctest --preset "$preset" 2>&1 | tee "$log" || status=$?

ran=$(sed -n 's/^.*tests passed, .* out of \([0-9]*\)$/\1/p' "$log")
gpu_ran=$(ctest --preset "$preset" -N -L gpu | sed -n 's/^Total Tests: //p')
gpus=0
if command -v nvidia-smi >/dev/null; then gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true); fi
if grep -qsx "not built" "build/$preset/gpu_tests_left_out"; then
  gpu_tests="; the GPU tests were not built, for this build has no CUDA backend"
elif gpu_left_out=$(count_gpu_tests_left_out); then
  gpu_tests=", $gpu_ran of them on a GPU; $gpu_left_out GPU tests were left out"
else
  gpu_tests=", $gpu_ran of them on a GPU; how many GPU tests were left out is not known"
  status=1
fi
left_out=build/$preset/tests_left_out
echo
echo "Ran ${ran:-0} tests$gpu_tests ($gpus GPUs seen)."
if [[ -s $left_out ]]; then
  echo "Left out besides:"
  sed 's/^/  /' "$left_out"
fi
grep -E '^[0-9]+% tests passed' "$log" || echo "No test result: see $log"
why_failed "$log"
exit "$status"
