#!/usr/bin/env bash
# cuda_parts_test.sh SOURCE WORK CMAKE: cmake/Cuda.cmake takes a toolkit that has all parts, and where one
# is gone or too old AUTO goes on without CUDA and ON fails, both naming it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/made_up_toolkit.sh" "$@"

include=$toolkit/include
make_toolkit 12.8.93
for wanted in AUTO ON; do
  expect "a whole toolkit, $wanted" 0 "$(configure $wanted)"
  expect "a whole toolkit, $wanted" \
    "toolkit 12.8.93, cuBLASLt 12.8.4, cuDNN 9.10.2, cudnn-frontend 1.32.0 in $include, NCCL 2.26.5, architectures 90" \
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

needs_cudnn="cuDNN (9.8 or later, 9.7.1 is in $include)"
needs_nccl="NCCL (2.18 or later, 2.17.1 is in $include)"
make_toolkit 12.8.93
make_cudnn 9 8 0
make_nccl 2 18 1
expect "the oldest that do" 0 "$(configure ON)"
make_cudnn 9 7 1
expect "an old cuDNN" 0 "$(configure AUTO)"
expect "an old cuDNN" "left out; not found: $needs_cudnn" "$(said)"
make_nccl 2 17 1
expect "ON with both old" 1 "$(configure ON)"
expect "ON with both old" "TANDEM_CUDA=ON, but not found: $needs_cudnn, $needs_nccl" "$(said)"
make_cudnn 9 8 0
expect "an old NCCL" 0 "$(configure AUTO)"
expect "an old NCCL" "left out; not found: $needs_nccl" "$(said)"

make_toolkit 12.8.93
rm "$toolkit/lib64/libcublasLt.so" "$toolkit/lib64/libnccl.so"
expect "ON without two libraries" 1 "$(configure ON)"
expect "ON without two libraries" \
  "TANDEM_CUDA=ON, but not found: libcublasLt of the CUDA Toolkit, NCCL (2.18 or later)" \
  "$(said)"
