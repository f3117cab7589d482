#!/usr/bin/env bash
# Installs what Tandem needs to build, run and test. Nothing is done where nothing is missing.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: tools/install_dependencies.sh [--lint] [--fuzz] [--tensorboard]

Installs the packages that Tandem needs to build, run and be tested (Debian 12 and 13, Ubuntu 24.04).
Only what is missing is installed; where nothing is, nothing is asked of the network.

  --lint          also clang-format and clang-tidy, for tools/lint.sh
  --fuzz          also clang with its run-time libraries, for tools/fuzz.sh
  --tensorboard   also TensorBoard in build/tensorboard, a Python environment of its own, for the test
                  that reads a run's event files with it (from PyPI: Debian has no package)
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

tensorboard=no
while (($# > 0)); do
  case $1 in
    --lint) packages+=(clang-format clang-tidy) ;;
    --fuzz) packages+=(clang libclang-rt-dev libomp-dev) ;;
    --tensorboard) tensorboard=yes && packages+=(python3-venv) ;;
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

installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
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

install_packages
if [[ $tensorboard == yes ]]; then install_tensorboard; fi
