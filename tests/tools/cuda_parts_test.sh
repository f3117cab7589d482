#!/usr/bin/env bash
# cuda_parts_test.sh SOURCE WORK CMAKE: cmake/Cuda.cmake takes a toolkit that has all parts, and where one
# is gone AUTO goes on without CUDA and ON fails, both naming it. The toolkit is made up, so that any
# part of it can be gone and no GPU, driver or toolkit is needed.
set -euo pipefail
source=$1
work=$2
cmake=$3
unset CUDA_PATH CUDACXX CUDAToolkit_ROOT CMAKE_PREFIX_PATH # may lead to a real one

rm -rf "$work"
mkdir -p "$work/project"
# Nothing is compiled, for the compiler is made up too; and what this machine has does not count.
cat >"$work/project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES NONE)
function(enable_language)
endfunction()
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
list(APPEND CMAKE_MODULE_PATH $source/cmake)
include(Cuda)
foreach(library IN LISTS TANDEM_CUDA_LIBRARIES)
  if(library MATCHES "::" AND NOT TARGET \${library})
    message(FATAL_ERROR "\${library} is linked, but was not looked for")
  endif()
endforeach()
CMAKE

# make_toolkit VERSION: into $toolkit.
toolkit=$work/toolkit
make_toolkit() {
  local file include=$toolkit/include
  rm -rf "$toolkit"
  mkdir -p "$toolkit/bin" "$toolkit/lib64" "$include/cccl/cuda" "$include/cccl/nv" "$include/nvtx3"
  cat >"$toolkit/bin/nvcc" <<SH
#!/bin/sh
case \$1 in
  -v) echo "#\$ TOP=$toolkit" >&2 ;;
  *) echo "Cuda compilation tools, release ${1%.*}, V$1" ;;
esac
SH
  chmod +x "$toolkit/bin/nvcc"
  for file in cudart cublasLt nvrtc cudnn nccl; do touch "$toolkit/lib64/lib$file.so"; done
  for file in cuda.h cuda_bf16.h cuda_fp16.h cuda_runtime.h cuda_runtime_api.h cublas_v2.h cublasLt.h \
    nvrtc.h nvtx3/nvToolsExt.h cccl/cuda/atomic cccl/nv/target cudnn.h cudnn_frontend.h; do
    touch "$include/$file"
  done
  printf '#define CUBLAS_VER_%s\n' 'MAJOR 12' 'MINOR 8' 'PATCH 4' 'BUILD 1' >"$include/cublas_api.h"
  printf '#define CUDNN_%s\n' 'MAJOR 9' 'MINOR 10' 'PATCHLEVEL 2' >"$include/cudnn_version.h"
  printf '#define NCCL_%s\n' 'MAJOR 2' 'MINOR 26' 'PATCH 5' >"$include/nccl.h"
  printf '#define CUDNN_FRONTEND_%s_VERSION %s\n' MAJOR 1 MINOR 32 PATCH 0 >"$include/cudnn_frontend_version.h"
}

# configure AUTO|ON: the exit status, with what CMake said in $work/log.
configure() {
  local status=0
  rm -rf "$work/build"
  "$cmake" -S "$work/project" -B "$work/build" -G Ninja -D "TANDEM_CUDA=$1" \
    -D "CMAKE_CUDA_COMPILER=$toolkit/bin/nvcc" -D "CUDAToolkit_ROOT=$toolkit" \
    -D "TANDEM_CUDNN_FRONTEND_DIR=$toolkit/include" -D CMAKE_CUDA_ARCHITECTURES=90 \
    >"$work/log" 2>&1 || status=$?
  echo "$status"
}

# expect WHAT WANTED GOT
expect() {
  [[ $2 == "$3" ]] && return
  printf '%s: expected\n%s\nbut found\n%s\n' "$@" >&2
  cat "$work/log" >&2
  exit 1
}

said() { sed -n -e 's/^-- CUDA backend: //p' -e 's/^ *\(TANDEM_CUDA=ON, but\)/\1/p' "$work/log"; }

make_toolkit 12.8.93
for wanted in AUTO ON; do
  expect "a whole toolkit, $wanted" 0 "$(configure $wanted)"
  expect "a whole toolkit, $wanted" \
    "toolkit 12.8.93, cuBLASLt 12.8.4, cuDNN 9.10.2, cudnn-frontend 1.32.0, NCCL 2.26.5, architectures 90" \
    "$(said)"
done

# gone FILE MISSED: AUTO leaves CUDA out.
gone() {
  make_toolkit 12.8.93
  rm "$toolkit/$1"
  expect "without $1" 0 "$(configure AUTO)"
  expect "without $1" "left out; not found: $2" "$(said)"
}
for library in cublasLt nvrtc; do gone "lib64/lib$library.so" "lib$library of the CUDA Toolkit"; done
for header in cublasLt.h nvrtc.h nvtx3/nvToolsExt.h; do gone "include/$header" "$header of the CUDA Toolkit"; done
for header in cuda/atomic nv/target; do gone "include/cccl/$header" "$header of the CUDA Toolkit"; done
gone lib64/libcudnn.so "cuDNN (9.8 or later)"
gone lib64/libnccl.so "NCCL (2.18 or later)"

# Where the toolkit is not taken, what lies in its folders is not found either.
first_said() { said | cut -d, -f "1-$1"; }
make_toolkit 12.8.93
rm "$toolkit/lib64/libcudart.so"
expect "without a runtime" 0 "$(configure AUTO)"
expect "without a runtime" "left out; not found: libcudart or cuda_runtime.h of the CUDA Toolkit" "$(first_said 1)"
make_toolkit 12.3.107
expect "an old toolkit" 0 "$(configure AUTO)"
expect "an old toolkit" "left out; not found: the CUDA Toolkit (12.4 or later, 12.3.107 is there)" "$(first_said 2)"

make_toolkit 12.8.93
rm "$toolkit/lib64/libcublasLt.so" "$toolkit/lib64/libnccl.so"
expect "ON without two libraries" 1 "$(configure ON)"
expect "ON without two libraries" \
  "TANDEM_CUDA=ON, but not found: libcublasLt of the CUDA Toolkit, NCCL (2.18 or later)" \
  "$(said)"
