#!/usr/bin/env bash
# test_summary_test.sh SOURCE WORK: what test.sh says of GPU tests and of what failed, with a build that is
# made up, and that it ends as the tests do.
set -euo pipefail
source=$1
work=$2

rm -rf "$work"
mkdir -p "$work/tools" "$work/bin" "$work/build/ci/bin/tests"
cp "$source/test.sh" "$work"
for tool in install_dependencies build_preset; do
  printf '#!/bin/sh\n' >"$work/tools/$tool.sh"
done
cat >"$work/bin/ctest" <<'SH'
#!/bin/sh
case "$*" in
  *-N*) echo "Total Tests: 2" ;;
  *) cat "${LOG:-/dev/null}" && echo "100% tests passed, 0 tests failed out of 5" && exit "${FAILS:-0}" ;;
esac
SH
printf '#!/bin/sh\necho "GPU 0: made up"\n' >"$work/bin/nvidia-smi"
cat >"$work/build/ci/bin/tests/test_a" <<'SH'
#!/bin/sh
[ "$*" = --gtest_list_tests ] || exit 1
cat <<'TEXT'
Running main() from gtest_main.cc
Fixed.
  One
Layers/Kernel.
  Runs/0  # GetParam() = 4-byte object <00-00 00-00>
  Runs/1  # GetParam() = 4-byte object <01-00 00-00>
TEXT
SH
printf '#!/bin/sh\necho "library is missing" >&2\nexit 127\n' >"$work/build/ci/bin/tests/test_b"
chmod +x "$work"/tools/* "$work"/bin/* "$work"/build/ci/bin/tests/*
: >"$work/build/ci/tests_left_out"

# expect STATUS SUMMARY LEFT_OUT...: with these lines in gpu_tests_left_out.
expect() {
  local status=0 summary
  printf '%s' "${@:3}" >"$work/build/ci/gpu_tests_left_out"
  PATH=$work/bin:$PATH "$work/test.sh" >"$work/log" 2>&1 || status=$?
  summary=$(grep '^Ran ' "$work/log" || true)
  if [[ $status != "$1" || $summary != "$2" ]]; then
    printf 'Expected %s\n%s\nbut found %s\n%s\n' "$1" "$2" "$status" "$summary" >&2
    cat "$work/log" >&2
    exit 1
  fi
}

expect 0 "Ran 5 tests, 2 of them on a GPU; 0 GPU tests were left out (1 GPUs seen)."
expect 0 "Ran 5 tests, 2 of them on a GPU; 5 GPU tests were left out (1 GPUs seen)." \
  $'cases of test_a\n' $'ranks.2\n' $'ranks.4\n'
FAILS=8 expect 8 "Ran 5 tests, 2 of them on a GPU; 3 GPU tests were left out (1 GPUs seen)." \
  $'cases of test_a\n'
expect 1 "Ran 5 tests, 2 of them on a GPU; how many GPU tests were left out is not known (1 GPUs seen)." \
  $'ranks.2\n' $'cases of test_b\n'
expect 0 "Ran 5 tests; the GPU tests were not built, for this build has no CUDA backend (1 GPUs seen)." \
  $'not built\n'

cat >"$work/failing" <<'TEXT'
1/3 Test #1: one ....   Passed    0.02 sec
2/3 Test #2: two ....***Failed    0.02 sec
[ RUN      ] Two.Is
two.cpp:12: Failure
Which is: 3
[  FAILED  ] Two.Is (3 ms)
1
2
3
4
5
6
mpirun has noticed
[  FAILED  ] Two.Is
      Start 3: three
3/3 Test #3: three ..***Timeout 300.0 sec
[ RUN      ] Three.Hangs

TEXT
LOG=$work/failing FAILS=8 expect 8 \
  "Ran 5 tests; the GPU tests were not built, for this build has no CUDA backend (1 GPUs seen)." $'not built\n'
said=$(sed '1,/^100% tests passed/d' "$work/log" | sed '1,/^100% tests passed/d')
wanted="2/3 Test #2: two ....***Failed    0.02 sec
  two.cpp:12: Failure
  Which is: 3
  [  FAILED  ] Two.Is (3 ms)
  1
  2
  3
  4
  5
  [  FAILED  ] Two.Is
3/3 Test #3: three ..***Timeout 300.0 sec
  [ RUN      ] Three.Hangs"
if [[ $said != "$wanted" ]]; then
  printf 'Expected behind the summary\n%s\nbut found\n%s\n' "$wanted" "$said" >&2
  exit 1
fi
