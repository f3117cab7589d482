#!/usr/bin/env bash
# From a clone to a trained model.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'TEXT'
Usage: ./quickstart.sh [--help]

Installs the packages that are missing (apt, as root or through sudo), builds Tandem into
build/release, and trains a small ResNet on Fashion-MNIST with two ranks (one on a machine of one core;
one for each GPU where there are any) into runs/quickstart. On two cores the first build takes some
ten minutes and the training two and a half. The CUDA backend is built once a GPU is seen, and stays;
TANDEM_CUDA=ON or OFF in the environment decides otherwise.

Safe to run again: what is installed and built is left as it is. A finished run is kept under
runs/quickstart.DATE-TIME and a new one is trained. A run that was stopped (Ctrl-C) goes on from its
checkpoint.
TEXT
}

case ${1:-} in
  '') ;;
  --help | -h) usage && exit 0 ;;
  *) echo "quickstart.sh: unknown option '$1'; see --help" >&2 && exit 2 ;;
esac

config=examples/fashion_mnist/quickstart.toml
run=runs/quickstart
program=build/release/bin/tandem
weights=$run/weights.safetensors

echo "== 1/3 Packages"
tools/install_dependencies.sh
echo "== 2/3 Build (the first takes some ten minutes on two cores)"
tools/build_preset.sh --cuda-for-seen-gpus release tandem

echo "== 3/3 Training ($config)"
arguments=(train "$config" --out "$run")
# The program holds the lock while it trains.
held=99
status=0
if [[ -f $run/run.lock ]] && command -v flock >/dev/null; then
  flock --nonblock --conflict-exit-code "$held" "$run/run.lock" true || status=$?
fi
if ((status == held)); then
  echo "quickstart.sh: a run trains in $run already ($(head -n 1 "$run/run.lock")); wait for its end, or stop it" >&2
  exit 2
fi
if [[ -f $weights ]]; then
  # The weights are written last: their presence marks a finished run.
  kept=$run.$(date +%Y%m%d-%H%M%S)
  mv "$run" "$kept"
  echo "A finished run was in $run; it is now $kept. Training anew."
elif compgen -G "$run/checkpoints/*.safetensors" >/dev/null; then
  echo "A run was stopped in $run; it goes on from its last checkpoint."
  arguments+=(--resume)
elif [[ -d $run ]]; then
  kept=$run.$(date +%Y%m%d-%H%M%S)
  mv "$run" "$kept"
  echo "A run stopped before its first checkpoint in $run; what it left is now $kept."
fi

# One rank on each GPU that this build can use, or two on a host without. The ranks share a batch, so
# that as many start as divide it.
launch=("$program" launch)
gpus=$("$program" doctor | sed -n 's/.*CUDA (.*): \([0-9]*\) GPUs can be used.*/\1/p')
if ((${gpus:-0} > 0)); then
  batch=$(sed -n 's/^global_batch *= *\([0-9]*\).*/\1/p' "$config")
  while ((batch % gpus != 0)); do gpus=$((gpus - 1)); done
  launch+=(--gpus "$gpus")
else
  launch+=(--gpus none --ranks-per-gpu "$(($(nproc) < 2 ? 1 : 2))")
fi

# A stop reaches the ranks through the launcher: they write a checkpoint, and this script then says how
# to go on. Bash lets what runs in the background ignore Ctrl-C, so that is passed on as SIGTERM.
"${launch[@]}" -- "${arguments[@]}" &
job=$!
trap 'kill -TERM "$job" 2>/dev/null || true' INT TERM HUP
# Not by wait: where a signal interrupts one at the job's end, Bash 5.2 loses the job's exit code.
# Ctrl-C in a terminal ends the sleep too, which is not to end the script before the job.
while kill -0 "$job" 2>/dev/null; do sleep 0.2 || true; done
status=0
wait "$job" || status=$?
trap - INT TERM HUP
if ((status == 75)); then
  echo "Training was stopped. ./quickstart.sh goes on from the checkpoint." >&2
  exit "$status"
fi
if ((status != 0)); then
  echo "Training ended with exit code $status. ./quickstart.sh goes on from the last checkpoint," \
    "if there is one." >&2
  exit "$status"
fi
best=$run/checkpoints/best.safetensors
"$program" weights export "$best" "$weights"

accuracy=$(sed -n '/"event": *"evaluation"/s/.*"top1": *\([0-9.]*\).*/\1/p' "$run/metrics.jsonl" |
  sort -g | tail -n 1)
cat <<TEXT

Done.
  test accuracy   $(awk -v top1="$accuracy" 'BEGIN { printf "%.2f %%", 100 * top1 }') (best epoch)
  checkpoint      $best
  metrics         $run/metrics.jsonl
  weights         $weights

Try next:  $program eval $config --weights $weights
TEXT
