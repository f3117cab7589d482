#!/usr/bin/env bash
# cudnn_frontend_test.sh SOURCE WORK CMAKE PYTHON: where cmake/FindCudnnFrontend.cmake finds the headers,
# what goes first, and which versions are refused. The wheels are headers alone in environments of
# PYTHON's.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/made_up_toolkit.sh" "$@"
python=$4

make_toolkit 12.8.93
rm "$toolkit"/include/cudnn_frontend*.h
given=$work/given
fetched=$work/project/build/cudnn_frontend/include

# make_environment FOLDER: its folder for wheels' headers.
make_environment() {
  "$python" -m venv --without-pip "$1"
  echo "$("$1/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/include"
}
on_path=$(make_environment "$work/on path")
active=$(make_environment "$work/active")

programs="$work/on path/bin"

look() { configure AUTO -D "TANDEM_CUDNN_FRONTEND_DIR=$given"; }
look_again() { configure_again AUTO -D "TANDEM_CUDNN_FRONTEND_DIR=$given"; }

# finds WHAT VERSION FOLDER
finds() {
  expect "$1" "cudnn-frontend $2 in $3" "$(said | sed 's/.*, \(cudnn-frontend.*\), NCCL.*/\1/')"
}

# refuses WHAT INSTEAD
missing="cudnn-frontend's headers by tools/install_dependencies.sh --cuda or -DTANDEM_CUDNN_FRONTEND_DIR=..."
refuses() { expect "$1" "left out; not found: $missing (1.13 or later$2)" "$(said)"; }

expect "none" 0 "$(look)"
refuses "none" ""

make_headers "$on_path" 1 14 1
expect "a wheel of the python3 on the PATH" 0 "$(look_again)"
finds "a wheel of the python3 on the PATH" 1.14.1 "$on_path"
VIRTUAL_ENV=$work/active
export VIRTUAL_ENV
expect "an environment without the wheel" 0 "$(look)"
finds "an environment without the wheel" 1.14.1 "$on_path"
make_headers "$active" 1 15 0
expect "a wheel of the active environment" 0 "$(look)"
finds "a wheel of the active environment" 1.15.0 "$active"
make_headers "$fetched" 1 32 0
expect "fetched after a wheel was found" 0 "$(look_again)"
finds "fetched after a wheel was found" 1.32.0 "$fetched"
make_headers "$given" 1 13 0
expect "a given path" 0 "$(look)"
finds "a given path" 1.13.0 "$given"

make_headers "$given" 1 12 0
expect "an old version" 0 "$(look)"
refuses "an old version" ", 1.12.0 is in $given"
rm "$given/cudnn_frontend_version.h"
expect "no version" 0 "$(look)"
refuses "no version" ""

rm -r "$given" "$fetched" "$active"
expect "an environment that lost the wheel" 0 "$(look_again)"
finds "an environment that lost the wheel" 1.14.1 "$on_path"
rm -r "$on_path" "$work/active"
expect "an environment that is gone" 0 "$(look_again)"
refuses "an environment that is gone" ""
