#!/usr/bin/env bash
# Compiles the CUDA backend against the oldest versions that cmake/Cuda.cmake takes.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: tools/oldest_cuda.sh [FOLDER]

Fetches the CUDA Toolkit 12.4 (packages of Debian 13's non-free section), cuDNN 9.8, NCCL 2.18 and
cudnn-frontend 1.13 (PyPI) into FOLDER (build/oldest_cuda), and compiles everything against them, for
Ampere and Hopper, with warnings as errors. Fetches 2.2 GB, which take 4.5 GB unpacked, and are kept for
the next time. Wants curl, xz, dpkg, Python's pip, and a C++ compiler that CUDA 12.4 takes (g++ 13 at
most; CXX names another), on x86-64; no root. Nothing is run: what the oldest versions compute only a GPU
tells.
TEXT
}

debian=https://deb.debian.org/debian
packages=(nvidia-cuda-toolkit nvidia-cuda-dev libcudart12 libcublas12 libcublaslt12 libnvrtc12
  libnvrtc-builtins12.4 libcu++-dev libcub-dev libthrust-dev)
wheels=(nvidia-cudnn-cu12==9.8.0.87 nvidia-nccl-cu12==2.18.3 nvidia-cudnn-frontend==1.13.0)

case ${1:-} in
  --help | -h) usage && exit 0 ;;
  -*) echo "oldest_cuda.sh: unknown option '$1'; see --help" >&2 && exit 2 ;;
esac
for program in curl xz dpkg sha256sum cmake ninja; do
  if ! command -v "$program" >/dev/null; then
    echo "oldest_cuda.sh: $program is missing" >&2 && exit 1
  fi
done
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "oldest_cuda.sh: Python's pip is missing (python3-pip)" >&2 && exit 1
fi
if [[ $(uname -m) != x86_64 ]]; then echo "oldest_cuda.sh: for x86-64 alone" >&2 && exit 1; fi
export CUDAHOSTCXX=${CUDAHOSTCXX:-${CXX:-g++}}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$root/build/oldest_cuda}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

fetch() { curl -fsS --retry 3 "$@"; }

# fetch_index SECTION: prints "NAME PATH SHA256" of each package there.
fetch_index() {
  fetch "$debian/dists/trixie/$1/binary-amd64/Packages.xz" | xz -d | awk '
    $1 == "Package:" { name = $2 }
    $1 == "Filename:" { path = $2 }
    $1 == "SHA256:" { print name, path, $2 }'
}

# Unpacks Debian's packages, and puts what they spread over the system where nvcc's own layout has it.
make_toolkit() {
  local work=$1 name path sum
  fetch_index non-free >"$work/index"
  fetch_index main >>"$work/index"
  for name in "${packages[@]}"; do
    read -r path sum < <(awk -v name="$name" '$1 == name { print $2, $3; exit }' "$work/index") || true
    if [[ -z $path ]]; then echo "oldest_cuda.sh: Debian 13 has no package $name" >&2 && return 1; fi
    echo "fetching $name"
    fetch -o "$work/package.deb" "$debian/$path"
    echo "$sum  $work/package.deb" | sha256sum --check --quiet
    dpkg -x "$work/package.deb" "$work/system"
  done
  local system=$work/system/usr toolkit=$work/toolkit
  mkdir -p "$toolkit/bin" "$toolkit/nvvm/bin"
  cp -a "$system"/bin/{cudafe++,fatbinary,ptxas,nvlink,bin2c,cuobjdump,__nvcc_device_query} "$toolkit/bin/"
  cp -a "$system/lib/nvidia-cuda-toolkit/bin/nvcc" "$toolkit/bin/"
  cp -aL "$system/lib/nvidia-cuda-toolkit/bin/crt" "$toolkit/bin/crt"
  cp -a "$system/lib/nvidia-cuda-toolkit/bin/cicc" "$toolkit/nvvm/bin/"
  cp -aL "$system/lib/nvidia-cuda-toolkit/libdevice" "$toolkit/nvvm/libdevice"
  mv "$system/include" "$toolkit/include"
  mv "$system/lib/x86_64-linux-gnu" "$toolkit/lib64"
  cat >"$toolkit/bin/nvcc.profile" <<'TEXT'
TOP                = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH              += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES          += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES         =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
TEXT
}

make_wheels() {
  local work=$1 wheel
  echo "fetching ${wheels[*]}"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version 3.11 --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux1_x86_64 --dest "$work/files" "${wheels[@]}"
  for wheel in "$work"/files/*.whl; do python3 -m zipfile -e "$wheel" "$work/wheels"; done
  ln -s libcudnn.so.9 "$work/wheels/nvidia/cudnn/lib/libcudnn.so"
  ln -s libnccl.so.2 "$work/wheels/nvidia/nccl/lib/libnccl.so"
}

# make_once NAME PARTS: fills FOLDER/NAME by make_NAME, unless that was done of the same parts; what
# breaks off leaves nothing.
make_once() {
  local work
  if [[ $(cat "$folder/$1/made_of" 2>/dev/null) == "$2" ]]; then return; fi
  rm -rf "${folder:?}/$1"
  work=$(mktemp -d "$folder/making.XXXXXX")
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  "make_$1" "$work"
  echo "$2" >"$work/$1/made_of"
  mv "$work/$1" "$folder/$1"
  rm -rf "$work"
  trap - EXIT
}

rm -rf "$folder"/making.*  # of one that was killed
make_once toolkit "${packages[*]}"
make_once wheels "${wheels[*]}"
cmake -S "$root" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTANDEM_CUDA=ON \
  -DTANDEM_NATIVE=OFF -DTANDEM_WERROR=ON -DTANDEM_BUILD_BENCHMARKS=ON \
  "-DCMAKE_CUDA_ARCHITECTURES=80-real;90" "-DCMAKE_CUDA_COMPILER=$folder/toolkit/bin/nvcc" \
  "-DCUDAToolkit_ROOT=$folder/toolkit" "-DCuDNN_ROOT=$folder/wheels/nvidia/cudnn" \
  "-DNCCL_ROOT=$folder/wheels/nvidia/nccl" "-DTANDEM_CUDNN_FRONTEND_DIR=$folder/wheels/include"
cmake --build "$folder/build"
