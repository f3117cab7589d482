#!/usr/bin/env bash
# Runs a command under an MPS daemon of its own: with_mps.sh COMMAND...
set -u
folder=$(mktemp -d) || exit 1
export CUDA_MPS_PIPE_DIRECTORY=$folder/pipe CUDA_MPS_LOG_DIRECTORY=$folder/log
mkdir "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY" || exit 1

end() {
  echo quit -t 5 | nvidia-cuda-mps-control >/dev/null 2>&1
  rm -rf "$folder"
}
trap end EXIT

nvidia-cuda-mps-control -d || exit 1
TANDEM_TEST_UNDER_MPS=1 "$@" &
command=$!
trap 'kill $command; exit 143' TERM INT HUP
wait $command
