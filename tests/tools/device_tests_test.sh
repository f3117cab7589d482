#!/usr/bin/env bash
# device_tests_test.sh SOURCE WORK: what tools/device_tests.py says of a test program and a sanitizer
# that are made up.
set -euo pipefail
source=$1
work=$2

rm -rf "$work"
mkdir -p "$work/bin"
# As GoogleTest deals the tests that fit the filter to the shards.
cat >"$work/test_a" <<'SH'
#!/bin/bash
names=(Sum.OfTwo Sum.OfMany Each/Sum.Of/0 Each/Sum.Of/1)
if [[ $1 == --gtest_list_tests ]]; then
  printf 'Running main()\nSum.\n  OfTwo\n  OfMany\nEach/Sum.\n  Of/0  # GetParam() = 1\n  Of/1  # GetParam() = 2\n'
  exit 0
fi
[[ $1 == '--gtest_filter=*' ]] || exit 3
code=0
for ((i = GTEST_SHARD_INDEX; i < ${#names[@]}; i += GTEST_TOTAL_SHARDS)); do
  echo "[ RUN      ] ${names[i]}"
  if [[ ${names[i]} == "${REPORTS:-}" && -n ${REPORT:-} ]]; then
    echo "said before"
    printf '%s\n' "$REPORT"
    echo "said behind"
  fi
  if [[ ${names[i]} == "${CRASHES:-}" ]]; then kill -SEGV $$; fi
  if [[ ${names[i]} == "${HANGS:-}" ]]; then
    setsid sleep 3600 &
    echo $! >>"$LOG.left"
    env -i setsid sleep 3601 &  # holds the output open
    echo $! >>"$LOG.left"
    sleep 60
  fi
  if [[ ${names[i]} == "${LEAVES:-}" ]]; then
    setsid sleep 3600 >/dev/null 2>&1 &
    echo $! >>"$LOG.left"
    env -i setsid sleep 3601 &
    echo $! >>"$LOG.left"
  fi
  if [[ ${names[i]} == "${LINGERS:-}" ]]; then setsid sleep 0.1 & fi
  if [[ ${names[i]} == "${SKIPS:-}" ]]; then
    echo "[  SKIPPED ] ${names[i]} (3 ms)"
  elif [[ ${names[i]} == "${FAILS:-}" ]]; then
    for line in {1..30}; do echo "said $line"; done
    printf 'sum.cpp:7: Failure\nwhich is 3\n'
    echo "[  FAILED  ] ${names[i]}, where GetParam() = 1 (3 ms)" && code=1
  else
    echo "[       OK ] ${names[i]} (3 ms)"
  fi
done
echo "tune is ${TANDEM_TUNE:-on}, repeats: ${TANDEM_TEST_REPEATS:-many}" >>"$LOG"
exit $code
SH
cat >"$work/bin/compute-sanitizer" <<'SH'
#!/bin/bash
echo "$*" >>"$LOG"
while [[ $1 == --* ]]; do shift 2; done
echo "========= COMPUTE-SANITIZER"
# What is found while the test REPORTS runs stands in its output.
if [[ -n ${REPORTS:-} ]]; then
  export REPORT="========= Invalid __global__ read of size 4 bytes
=========     at sum(float *)+0x160 in sum.cu:6
=========     by thread (0,0,0) in block (0,0,0)"
  if [[ -n ${LONG:-} ]]; then
    for frame in {1..6}; do REPORT+=$'\n'"=========         Host Frame: $frame"; done
    REPORT+=$'\n========= \n========= Program hit cudaErrorLaunchFailure (error 719)\n========='
  fi
  if [[ -n ${NAMES:-} ]]; then
    names="========= CUDA API Error: Duplicate entry kernels named \"_ZN5cudnn6KernelI\" in module
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame:  [0x2c1de5] in libcuda.so.1
=========         Host Frame:  [0x33b001] in $NAMES
========= "
    REPORT="$names"$'\n'"${names/Kernel/Reduce}${AND:+$'\n'$REPORT}"
  fi
fi
"$@" || exit
if [[ -n ${LONG:-} ]]; then
  printf '========= Leaked %s bytes at 0x7f00\n=========     Saved host backtrace\n' 8 16
fi
if [[ -n ${BROKEN:-} ]]; then echo "========= $BROKEN"; fi
echo "========= ERROR SUMMARY: ${ERRORS:-0} errors"
[[ -z ${ERRORS:-} ]] || exit 86
SH
chmod +x "$work/test_a" "$work/bin/compute-sanitizer"
export LOG=$work/log

# expect CODE LINE... OPTIONS: these lines, in this order, but for how long all took.
expect() {
  local code=$1 status=0
  local lines=()
  shift
  while [[ $1 != -- ]]; do lines+=("$1") && shift; done
  shift
  PATH=$work/bin:$PATH "$source/tools/device_tests.py" "$work/test_a" --jobs 2 "$@" >"$work/out" 2>&1 || status=$?
  sed -i -E 's/, (in )?[0-9]+ s\b/, \1T/; s/^(left behind of shard [0-9]+: )[0-9]+/\1PID/' "$work/out"
  if [[ $status != "$code" ]] || ! diff <(printf '%s\n' "${lines[@]}") "$work/out" >&2; then
    echo "exit code $status; expected $code" >&2
    exit 1
  fi
}

# none_goes_on NUMBER: of that many processes that a test started.
none_goes_on() {
  local process state number=0
  while read -r process; do
    number=$((number + 1))
    state=$(ps -o stat= -p "$process" || true)
    if [[ -n $state && $state != Z* ]]; then echo "what a test started goes on" >&2 && exit 1; fi
  done <"$LOG.left"
  if ((number != $1)); then echo "a test started $number processes; expected $1" >&2 && exit 1; fi
  rm "$LOG.left"
}

expect 0 "shard 0: 2 passed, 0 failed, T" "shard 1: 2 passed, 0 failed, T" \
  "test_a, *: 4 of 4 passed, 0 failed, in T" --
grep -qx "tune is on, repeats: many" "$LOG"
FAILS=Each/Sum.Of/0 expect 1 "shard 0: 1 passed, 1 failed, T; exit code 1" "shard 1: 2 passed, 0 failed, T" \
  "failed: Each/Sum.Of/0" "Each/Sum.Of/0: sum.cpp:7: Failure" "Each/Sum.Of/0: which is 3" \
  "test_a, *: 3 of 4 passed, 1 failed, in T; NOT ALL WELL" --
FAILS=Each/Sum.Of/0 expect 1 "shard 0: 1 passed, 1 failed, T; exit code 1" "shard 1: 2 passed, 0 failed, T" \
  "failed: Each/Sum.Of/0" "Each/Sum.Of/0: said 17" "Each/Sum.Of/0: said 27" \
  "Each/Sum.Of/0: sum.cpp:7: Failure" "Each/Sum.Of/0: which is 3" \
  "test_a, *: 3 of 4 passed, 1 failed, in T; NOT ALL WELL" -- --show 'said [12]7'
SKIPS=Sum.OfTwo expect 0 "shard 0: 1 passed, 0 failed, 1 skipped, T" "shard 1: 2 passed, 0 failed, T" \
  "skipped: Sum.OfTwo" "test_a, *: 3 of 4 passed, 0 failed, in T" --
CRASHES=Sum.OfMany expect 1 "shard 0: 2 passed, 0 failed, T" \
  "shard 1: 0 passed, 0 failed, 2 not run, T; exit code -11 in Sum.OfMany" \
  "not run: Sum.OfMany" "not run: Each/Sum.Of/1" "test_a, *: 2 of 4 passed, 0 failed, in T; NOT ALL WELL" --
HANGS=Each/Sum.Of/0 expect 1 "shard 0: 1 passed, 0 failed, 1 not run, T; ended by the limit in Each/Sum.Of/0" \
  "shard 1: 2 passed, 0 failed, T" \
  "not run: Each/Sum.Of/0" "test_a, *: 3 of 4 passed, 0 failed, in T; NOT ALL WELL" -- --limit 10
none_goes_on 2
# More shards than jobs: those behind one that hangs come to nothing, those before it count.
HANGS=Each/Sum.Of/0 expect 1 "shard 0: 1 passed, 0 failed, T" "shard 1: 1 passed, 0 failed, T" \
  "shard 2: 0 passed, 0 failed, 1 not run, T; ended by the limit in Each/Sum.Of/0" \
  "shard 3: 0 passed, 0 failed, 1 not run, T; not begun within the limit" \
  "not run: Each/Sum.Of/0" "not run: Each/Sum.Of/1" \
  "test_a, *: 2 of 4 passed, 0 failed, in T; NOT ALL WELL" -- --jobs 1 --shards 4 --limit 10
none_goes_on 2
# No shard is without a test.
expect 0 "shard 0: 1 passed, 0 failed, T" "shard 1: 1 passed, 0 failed, T" "shard 2: 1 passed, 0 failed, T" \
  "shard 3: 1 passed, 0 failed, T" "test_a, *: 4 of 4 passed, 0 failed, in T" -- --shards 9
LEAVES=Sum.OfMany expect 1 "shard 0: 2 passed, 0 failed, T" \
  "shard 1: 2 passed, 0 failed, T; 2 processes left behind" \
  "left behind of shard 1: PID sleep 3600" "left behind of shard 1: PID sleep 3601" \
  "test_a, *: 4 of 4 passed, 0 failed, in T; NOT ALL WELL" --
none_goes_on 2
LINGERS=Sum.OfMany expect 0 "shard 0: 2 passed, 0 failed, T" "shard 1: 2 passed, 0 failed, T" \
  "test_a, *: 4 of 4 passed, 0 failed, in T" --
: >"$LOG"
expect 0 "shard 0: 2 passed, 0 failed, T; ERROR SUMMARY: 0 errors" \
  "shard 1: 2 passed, 0 failed, T; ERROR SUMMARY: 0 errors" \
  "test_a under memcheck, *: 4 of 4 passed, 4 with the tool's verdict, 0 failed, in T" -- --tool memcheck
grep -q "^--tool memcheck --error-exitcode 86 --kernel-name kns=tandem $work/test_a " "$LOG"
grep -qx "tune is off, repeats: 1" "$LOG"
: >"$LOG"
expect 0 "shard 0: 4 passed, 0 failed, T; ERROR SUMMARY: 0 errors" \
  "test_a under racecheck, *: 4 of 4 passed, 4 with the tool's verdict, 0 failed, in T" \
  -- --tool racecheck --shards 1 --skip-kernel slow_ --skip-kernel large --tool-option=--racecheck-num-workers --tool-option=1
grep -q " --kernel-name kns=tandem --kernel-name-exclude kns=slow_ --kernel-name-exclude kns=large --racecheck-num-workers 1 $work/test_a" "$LOG"
ERRORS=3 expect 1 "shard 0: 2 passed, 0 failed, T; exit code 86; ERROR SUMMARY: 3 errors" \
  "shard 1: 2 passed, 0 failed, T; exit code 86; ERROR SUMMARY: 3 errors" \
  "test_a under racecheck, *: 4 of 4 passed, 4 with the tool's verdict, 0 failed, in T; NOT ALL WELL" -- --tool racecheck
# A report is named by the test in whose output it stands, behind the lists of tests.
REPORTS=Sum.OfTwo SKIPS=Each/Sum.Of/1 ERRORS=1 expect 1 \
  "shard 0: 2 passed, 0 failed, T; exit code 86; ERROR SUMMARY: 1 errors" \
  "shard 1: 1 passed, 0 failed, 1 skipped, T; exit code 86; ERROR SUMMARY: 1 errors" \
  "skipped: Each/Sum.Of/1" "Sum.OfTwo: Invalid __global__ read of size 4 bytes" \
  "Sum.OfTwo:     at sum(float *)+0x160 in sum.cu:6" "Sum.OfTwo:     by thread (0,0,0) in block (0,0,0)" \
  "test_a under memcheck, *: 3 of 4 passed, 3 with the tool's verdict, 0 failed, in T; NOT ALL WELL" -- --tool memcheck
# Three reports of a shard, of each at most six lines behind the first; leaks come behind the last test.
REPORTS=Sum.OfMany LONG=1 ERRORS=4 expect 1 \
  "shard 0: 4 passed, 0 failed, T; exit code 86; ERROR SUMMARY: 4 errors" \
  "Sum.OfMany: Invalid __global__ read of size 4 bytes" \
  "Sum.OfMany:     at sum(float *)+0x160 in sum.cu:6" "Sum.OfMany:     by thread (0,0,0) in block (0,0,0)" \
  "Sum.OfMany:         Host Frame: "{1..4} "Sum.OfMany: Program hit cudaErrorLaunchFailure (error 719)" \
  "Each/Sum.Of/1: Leaked 8 bytes at 0x7f00" "Each/Sum.Of/1:     Saved host backtrace" \
  "test_a under memcheck, *: 4 of 4 passed, 4 with the tool's verdict, 0 failed, in T; NOT ALL WELL" \
  -- --tool memcheck --shards 1
# Names in cuDNN's binaries are no error, and hide none; nobody else's are passed over.
REPORTS=Sum.OfMany NAMES=libcudnn_a.so.9 ERRORS=2 expect 0 \
  "shard 0: 4 passed, 0 failed, T; exit code 86; ERROR SUMMARY: 2 errors, 2 of cuDNN's names of kernels" \
  "test_a under memcheck, *: 4 of 4 passed, 4 with the tool's verdict, 0 failed, in T" -- --tool memcheck --shards 1
REPORTS=Sum.OfMany NAMES=libcudnn_a.so.9 AND=1 ERRORS=3 expect 1 \
  "shard 0: 4 passed, 0 failed, T; exit code 86; ERROR SUMMARY: 3 errors, 2 of cuDNN's names of kernels" \
  "Sum.OfMany: Invalid __global__ read of size 4 bytes" \
  "Sum.OfMany:     at sum(float *)+0x160 in sum.cu:6" "Sum.OfMany:     by thread (0,0,0) in block (0,0,0)" \
  "test_a under memcheck, *: 4 of 4 passed, 4 with the tool's verdict, 0 failed, in T; NOT ALL WELL" \
  -- --tool memcheck --shards 1
REPORTS=Sum.OfMany NAMES=test_a ERRORS=2 expect 1 \
  "shard 0: 4 passed, 0 failed, T; exit code 86; ERROR SUMMARY: 2 errors" \
  "Sum.OfMany: CUDA API Error: Duplicate entry kernels named \"_ZN5cudnn6KernelI\" in module" \
  "Sum.OfMany:     Saved host backtrace up to driver entry point at error" \
  "Sum.OfMany:         Host Frame:  [0x2c1de5] in libcuda.so.1" "Sum.OfMany:         Host Frame:  [0x33b001] in test_a" \
  "Sum.OfMany: CUDA API Error: Duplicate entry kernels named \"_ZN5cudnn6ReduceI\" in module" \
  "Sum.OfMany:     Saved host backtrace up to driver entry point at error" \
  "Sum.OfMany:         Host Frame:  [0x2c1de5] in libcuda.so.1" "Sum.OfMany:         Host Frame:  [0x33b001] in test_a" \
  "test_a under memcheck, *: 4 of 4 passed, 4 with the tool's verdict, 0 failed, in T; NOT ALL WELL" \
  -- --tool memcheck --shards 1
for broken in "Internal Sanitizer Error: a patch failed" "RACECHECK SUMMARY: 1 hazard displayed"; do
  REPORTS=Sum.OfMany NAMES=libcudnn_a.so.9 BROKEN=$broken ERRORS=2 expect 1 \
    "shard 0: 4 passed, 0 failed, T; exit code 86; $broken; ERROR SUMMARY: 2 errors, 2 of cuDNN's names of kernels" \
    "test_a under memcheck, *: 4 of 4 passed, 4 with the tool's verdict, 0 failed, in T; NOT ALL WELL" \
    -- --tool memcheck --shards 1
done
REPORTS=Sum.OfMany NAMES=libcudnn_a.so.9 BROKEN="Error: process didn't terminate successfully" ERRORS=2 expect 1 \
  "shard 0: 4 passed, 0 failed, T; exit code 86; ERROR SUMMARY: 2 errors, 2 of cuDNN's names of kernels" \
  "test_a under memcheck, *: 4 of 4 passed, 4 with the tool's verdict, 0 failed, in T; NOT ALL WELL" \
  -- --tool memcheck --shards 1
FAILS=Sum.OfMany REPORTS=Sum.OfTwo NAMES=libcudnn_a.so.9 ERRORS=2 expect 1 \
  "shard 0: 3 passed, 1 failed, T; exit code 1; no summary, 2 reports until then, 2 of cuDNN's names of kernels" \
  "failed: Sum.OfMany" "Sum.OfMany: sum.cpp:7: Failure" \
  "Sum.OfMany: which is 3" "test_a under memcheck, *: 3 of 4 passed, 0 with the tool's verdict, 1 failed, in T; NOT ALL WELL" \
  -- --tool memcheck --shards 1
# A shard that is ended has no verdict of the tool's.
for reports in "" Each/Sum.Of/0; do
  found=()
  if [[ -n $reports ]]; then
    found=("$reports: Invalid __global__ read of size 4 bytes" "$reports:     at sum(float *)+0x160 in sum.cu:6"
      "$reports:     by thread (0,0,0) in block (0,0,0)")
  fi
  REPORTS=$reports HANGS=Each/Sum.Of/0 expect 1 \
    "shard 0: 1 passed, 0 failed, 1 not run, T; ended by the limit in Each/Sum.Of/0; no summary, $([[ -n $reports ]] && echo "1 report" || echo "0 reports") until then" \
    "shard 1: 2 passed, 0 failed, T; ERROR SUMMARY: 0 errors" "not run: Each/Sum.Of/0" "${found[@]}" \
    "test_a under memcheck, *: 3 of 4 passed, 2 with the tool's verdict, 0 failed, in T; NOT ALL WELL" -- --limit 10 --tool memcheck
  none_goes_on 2
done
