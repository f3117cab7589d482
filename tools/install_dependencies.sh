#!/usr/bin/env bash
# Installs what Tandem needs to build, run and test. Nothing is done where nothing is missing.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: tools/install_dependencies.sh [--lint] [--fuzz] [--tensorboard] [--cuda]

Installs the packages that Tandem needs to build, run and be tested (Debian 12 and 13, Ubuntu 24.04).
Only what is missing is installed; where nothing is, nothing is asked of the network.

  --lint          also clang-format and clang-tidy, for tools/lint.sh
  --fuzz          also clang with its run-time libraries, for tools/fuzz.sh
  --tensorboard   also TensorBoard in build/tensorboard, a Python environment of its own, for the test
                  that reads a run's event files with it (from PyPI: Debian has no package)
  --cuda          also cudnn-frontend's headers in build/cudnn_frontend, for the CUDA backend (from
                  PyPI). Where nvcc is on the PATH they are fetched without this option too, and if
                  that fails CMake tries GitHub, and else builds without CUDA. The CUDA Toolkit,
                  cuDNN and NCCL are NVIDIA's to install
  --help          this text
TEXT
}

packages=(
  build-essential cmake ninja-build pkg-config
  libopenmpi-dev openmpi-bin
  libeigen3-dev libdnnl-dev
  libjpeg-dev 'libturbojpeg0-dev|libturbojpeg-dev'
  libtomlplusplus-dev libcli11-dev nlohmann-json3-dev
  libspdlog-dev libfmt-dev libhwloc-dev zlib1g-dev
  libgtest-dev libbenchmark-dev
  iproute2
)

# The CUDA backend's headers: the version that it is tested with. cmake/Cuda.cmake says from which on
# they will do.
cudnn_frontend_version=1.32.0

tensorboard=no
cuda=no
if command -v nvcc >/dev/null || [[ -n ${CUDACXX:-} ]]; then cuda=if_possible; fi
while (($# > 0)); do
  case $1 in
    --lint) packages+=(clang-format clang-tidy) ;;
    --fuzz) packages+=(clang libclang-rt-dev libomp-dev) ;;
    --tensorboard) tensorboard=yes && packages+=(python3-venv) ;;
    --cuda) cuda=yes ;;
    --help | -h) usage && exit 0 ;;
    *) echo "install_dependencies.sh: unknown option '$1'; see --help" >&2 && exit 2 ;;
  esac
  shift
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "This is no system with apt: install a C++20 compiler, CMake >= 3.25, Ninja, pkg-config," \
    "Open MPI, Eigen 3, oneDNN (2.6 or later), libjpeg-turbo, toml++, CLI11, nlohmann-json, spdlog," \
    "fmt, hwloc, zlib, GoogleTest and Google Benchmark, then run cmake --preset release." >&2
  exit 1
fi

# The data set of the quickstart is a package of Debian's alone.
if grep -qx 'ID=debian' /etc/os-release; then packages+=(dataset-fashion-mnist); fi

# Of this machine's architecture: others of the package may be there too, or have been.
architecture=$(dpkg --print-architecture)
installed() {
  dpkg-query -W -f='${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null |
    grep -xE "($architecture|all) installed" >/dev/null
}

# Prints the first of the names in "a|b" that is installed, or nothing.
any_installed() {
  local name
  for name in ${1//|/ }; do
    if installed "$name"; then echo "$name" && return; fi
  done
}

# The first of the names in "a|b" that apt can install; the first name where it knows none.
choose() {
  local name
  for name in ${1//|/ }; do
    if [[ -n $(apt-cache --quiet=0 madison "$name" 2>/dev/null) ]]; then echo "$name" && return; fi
  done
  echo "${1%%|*}"
}

install_packages() {
  local package missing=() chosen=() as_root=()
  for package in "${packages[@]}"; do
    if [[ -z $(any_installed "$package") ]]; then missing+=("$package"); fi
  done
  if ((${#missing[@]} == 0)); then
    echo "Packages: all ${#packages[@]} are installed."
    return
  fi

  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "Not root, and there is no sudo; have these packages installed: ${missing[*]%%|*}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi

  echo "Packages: installing ${#missing[@]} of ${#packages[@]}: ${missing[*]%%|*}"
  "${as_root[@]}" apt-get update -qq
  for package in "${missing[@]}"; do chosen+=("$(choose "$package")"); done
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${chosen[@]}"
  echo "Packages: done."
}

install_tensorboard() {
  local root folder wanted
  root=$(dirname "${BASH_SOURCE[0]}")/..
  folder=$root/build/tensorboard
  wanted=$root/tools/tensorboard_requirements.txt
  if cmp -s "$wanted" "$folder/installed.txt"; then
    echo "TensorBoard: is installed."
    return
  fi
  python3 -m venv --clear "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
  cp "$wanted" "$folder/installed.txt"
  echo "TensorBoard: done."
}

has_pip() { python3 -m pip --version >/dev/null 2>&1; }

# fetch_cudnn_frontend WORK LOG: unpacks the wheel into WORK. It is made for some Python, but of its
# contents the headers alone are used.
fetch_cudnn_frontend() {
  local python=python3
  if ! has_pip; then
    python3 -m venv "$1/venv" || return
    python=$1/venv/bin/python
  fi
  "$python" -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 20 --no-deps \
    --only-binary=:all: --python-version 3.11 --platform "manylinux_2_28_$(uname -m)" \
    --dest "$1" "nvidia-cudnn-frontend==$cudnn_frontend_version" || return
  "$python" -m zipfile -e "$1"/nvidia_cudnn_frontend-*.whl "$1/wheel" || return
  [[ -f $1/wheel/include/cudnn_frontend.h ]]
}

install_cudnn_frontend() {
  local root folder work reason
  root=$(dirname "${BASH_SOURCE[0]}")/..
  folder=$root/build/cudnn_frontend
  if [[ $(cat "$folder/version" 2>/dev/null) == "$cudnn_frontend_version" ]]; then
    echo "cudnn-frontend: is there."
    return
  fi
  mkdir -p "$root/build"
  work=$(mktemp -d "$root/build/cudnn_frontend.XXXXXX")
  if ! fetch_cudnn_frontend "$work" >"$work/log" 2>&1; then
    reason=$(grep -v '^[[:space:]]*$' "$work/log" | tail -n 1)
    rm -rf "$work"
    echo "cudnn-frontend $cudnn_frontend_version could not be fetched from PyPI (no network?): ${reason:-no wheel}" >&2
    if [[ $cuda == yes ]]; then exit 1; fi
    echo "The build goes on: CMake tries GitHub where it builds for CUDA, and else does without."
    return
  fi
  rm -rf "$folder"
  mkdir "$folder"
  mv "$work/wheel/include" "$folder/include"
  echo "$cudnn_frontend_version" >"$folder/version"
  rm -rf "$work"
  echo "cudnn-frontend: done."
}

if [[ $cuda != no ]] && ! has_pip; then packages+=(python3-venv); fi
install_packages
if [[ $cuda != no ]]; then install_cudnn_frontend; fi
if [[ $tensorboard == yes ]]; then install_tensorboard; fi
