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
# A daemon's clients count the GPUs that it was shown.
if [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
  shown=${CUDA_VISIBLE_DEVICES//[^,]/}
  CUDA_VISIBLE_DEVICES=$(seq -s , 0 ${#shown})
  export CUDA_VISIBLE_DEVICES
fi
TANDEM_TEST_UNDER_MPS=1 "$@" &
command=$!
trap 'kill $command; exit 143' TERM INT HUP
wait $command
