#!/usr/bin/env bash
# build_preset_test.sh SOURCE WORK: tests whose needs are missing are listed with their reasons, and
# tools/build_preset.sh registers them once the needs are there.
set -euo pipefail
unset TANDEM_CUDA # the one who runs the tests may have decided
source=$1
work=$2

rm -rf "$work"
mkdir -p "$work/tools"
cp "$source/tools/build_preset.sh" "$work/tools"
cat >"$work/CMakePresets.json" <<'JSON'
{
  "version": 6,
  "configurePresets": [
    {"name": "tiny", "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}"}
  ]
}
JSON
cat >"$work/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES NONE)
enable_testing()
include($source/cmake/TandemTests.cmake)
foreach(need a b)
  if(EXISTS \${PROJECT_SOURCE_DIR}/\${need})
    add_test(NAME needs_\${need} COMMAND true)
  else()
    tandem_leave_out(needs_\${need} "\${need} is missing; really\nso")
  endif()
endforeach()
tandem_write_tests_left_out()
CMAKE

option=()
build() { "$work/tools/build_preset.sh" "${option[@]}" tiny >"$work/log" 2>&1 || { cat "$work/log" && exit 1; }; }

# expect WHAT WANTED GOT
expect() {
  [[ $2 == "$3" ]] && return
  printf '%s: expected\n%s\nbut found\n%s\n' "$@" >&2
  exit 1
}

left_out() { cat "$work/build/tiny/tests_left_out"; }
tests() { ctest --test-dir "$work/build/tiny" -N | sed -n 's/^ *Test *#[0-9]*: //p'; }

build
expect "at first" $'needs_a: a is missing, really, so\nneeds_b: b is missing, really, so' "$(left_out)"
expect "tests at first" "" "$(tests)"
touch "$work/a"
build
expect "with a" "needs_b: b is missing, really, so" "$(left_out)"
expect "tests with a" "needs_a" "$(tests)"
touch "$work/b"
build
expect "with both" "" "$(left_out)"
expect "tests with both" $'needs_a\nneeds_b' "$(tests)"
# Nothing is left out: nothing to look for again.
build
if grep -q Configuring "$work/log"; then echo "configured for nothing" >&2 && exit 1; fi
# The CUDA backend's headers have come.
sleep 0.1
mkdir -p "$work/build/cudnn_frontend"
echo 1 >"$work/build/cudnn_frontend/version"
build
if ! grep -q Configuring "$work/log"; then echo "new headers were not seen" >&2 && exit 1; fi
build
if grep -q Configuring "$work/log"; then echo "old headers were seen again" >&2 && exit 1; fi
# A job on a node with GPUs builds what a node without one configured.
gpus() {
  cat >"$work/programs/nvidia-smi" <<SH
#!/bin/sh
[ "\$*" = "--query-gpu=compute_cap --format=csv,noheader" ] || exit 99
printf '%s\n' $*
SH
  chmod +x "$work/programs/nvidia-smi"
}
mkdir "$work/programs"
PATH=$work/programs:$PATH
configures() {
  build
  if ! grep -q Configuring "$work/log"; then echo "$1: not configured again" >&2 && exit 1; fi
  build
  if grep -q Configuring "$work/log"; then echo "$1: configured for nothing" >&2 && exit 1; fi
}
gpus 9.0 8.0
configures "two cards have come"
gpus 8.0 9.0
build
if grep -q Configuring "$work/log"; then echo "the same cards in another order" >&2 && exit 1; fi
gpus 8.0
configures "another number of cards"
gpus No devices were found
build
if grep -q Configuring "$work/log"; then echo "configured where no card is seen any more" >&2 && exit 1; fi
# The environment decides on the CUDA backend, and decides anew.
sed -i '/^enable_testing/i set(TANDEM_CUDA AUTO CACHE STRING "")' "$work/CMakeLists.txt"
cuda() { sed -n 's/^TANDEM_CUDA:STRING=//p' "$work/build/tiny/CMakeCache.txt"; }
build
expect "the backend by default" AUTO "$(cuda)"
for wanted in OFF ON; do
  TANDEM_CUDA=$wanted build
  expect "the backend as asked for" $wanted "$(cuda)"
  TANDEM_CUDA=$wanted build
  if grep -q Configuring "$work/log"; then echo "configured again for $wanted" >&2 && exit 1; fi
done
# Without a GPU a first build may leave it out, until one is seen; what was built with it stays.
printf '#!/bin/sh\n' >"$work/programs/nvcc"
chmod +x "$work/programs/nvcc"
option=(--cuda-for-seen-gpus)
build
expect "the backend that was asked for" ON "$(cuda)"
rm -r "$work/build/tiny"
build
expect "the backend without a GPU" OFF "$(cuda)"
grep -q "until one is" "$work/log"
build
if grep -q Configuring "$work/log"; then echo "left out again" >&2 && exit 1; fi
gpus 9.0
configures "the first card has come"
expect "the backend with a GPU" AUTO "$(cuda)"
gpus No devices were found
build
expect "the backend where no card is seen any more" AUTO "$(cuda)"
rm -r "$work/build/tiny"
gpus 9.0
build
expect "the backend of a first build with a GPU" AUTO "$(cuda)"
