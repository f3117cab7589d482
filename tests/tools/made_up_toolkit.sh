# shellcheck shell=bash
# Sourced with the arguments SOURCE WORK CMAKE by tests of cmake/Cuda.cmake: a made-up toolkit, any part
# of which can be gone, and a project that includes Cuda.cmake. No GPU, driver or toolkit is needed.
source=$1
work=$2
cmake=$3
unset CUDA_PATH CUDACXX CUDAToolkit_ROOT CMAKE_PREFIX_PATH # may lead to a real one
unset VIRTUAL_ENV PYTHONPATH PYTHONHOME
ninja=$(command -v ninja)

rm -rf "$work"
mkdir -p "$work/project"
# Nothing is compiled, for the compiler is made up too; and what this machine has does not count.
cat >"$work/project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES NONE)
function(enable_language)
endfunction()
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH \${LOOK_ON_PATH})
list(APPEND CMAKE_MODULE_PATH $source/cmake)
include(Cuda)
foreach(library IN LISTS TANDEM_CUDA_LIBRARIES)
  if(library MATCHES "::" AND NOT TARGET \${library})
    message(FATAL_ERROR "\${library} is linked, but was not looked for")
  endif()
endforeach()
tandem_seen_architectures(seen count)
message(STATUS "cards: \${count}")
CMAKE

toolkit=$work/toolkit

# Their arguments: MAJOR MINOR PATCH.
make_cudnn() { printf '#define CUDNN_%s\n' "MAJOR $1" "MINOR $2" "PATCHLEVEL $3" >"$toolkit/include/cudnn_version.h"; }
make_nccl() { printf '#define NCCL_%s\n' "MAJOR $1" "MINOR $2" "PATCH $3" >"$toolkit/include/nccl.h"; }

# make_headers FOLDER MAJOR MINOR PATCH: cudnn-frontend's.
make_headers() {
  mkdir -p "$1"
  touch "$1/cudnn_frontend.h"
  printf '#define CUDNN_FRONTEND_%s_VERSION %s\n' MAJOR "$2" MINOR "$3" PATCH "$4" >"$1/cudnn_frontend_version.h"
}

# make_toolkit VERSION: into $toolkit.
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
    nvrtc.h nvtx3/nvToolsExt.h cccl/cuda/atomic cccl/nv/target cudnn.h; do
    touch "$include/$file"
  done
  printf '#define CUBLAS_VER_%s\n' 'MAJOR 12' 'MINOR 8' 'PATCH 4' 'BUILD 1' >"$include/cublas_api.h"
  make_cudnn 9 10 2
  make_nccl 2 26 5
  make_headers "$include" 1 32 0
}

# The only folder of programs that Cuda.cmake finds; empty: none.
programs=

# configure_again AUTO|ON [CMake's options]: the exit status, with what CMake said in $work/log. Nothing
# is fetched unless an option says so.
configure_again() {
  local status=0 look=OFF
  if [[ -n $programs ]]; then look=ON; fi
  PATH=${programs:-$PATH} "$cmake" -S "$work/project" -B "$work/build" -G Ninja -D "CMAKE_MAKE_PROGRAM=$ninja" \
    -D "TANDEM_CUDA=$1" -D "CMAKE_CUDA_COMPILER=$toolkit/bin/nvcc" -D "CUDAToolkit_ROOT=$toolkit" \
    -D "TANDEM_CUDNN_FRONTEND_DIR=$toolkit/include" -D CMAKE_CUDA_ARCHITECTURES=90 \
    -D TANDEM_FETCH_CUDNN_FRONTEND=OFF -D "LOOK_ON_PATH=$look" "${@:2}" >"$work/log" 2>&1 || status=$?
  echo "$status"
}

# The same in a build folder that is new.
configure() {
  rm -rf "$work/build"
  configure_again "$@"
}

# expect WHAT WANTED GOT
expect() {
  [[ $2 == "$3" ]] && return
  printf '%s: expected\n%s\nbut found\n%s\n' "$@" >&2
  cat "$work/log" >&2
  exit 1
}

said() { sed -n -e 's/^-- CUDA backend: //p' -e 's/^ *\(TANDEM_CUDA=ON, but\)/\1/p' "$work/log"; }
