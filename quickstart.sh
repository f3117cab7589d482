#!/usr/bin/env bash
# From a clone to a trained model.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'TEXT'
Usage: ./quickstart.sh [--help]

Installs the packages that are missing (apt, as root or through sudo), builds Tandem into
build/release, and trains a small ResNet on Fashion-MNIST with two MPI ranks (one on a machine of one
core) into runs/quickstart. About three minutes of training on two cores. The CUDA backend is built
where a GPU is seen; TANDEM_CUDA=ON or OFF in the environment decides otherwise.

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
echo "== 2/3 Build"
# Its kernels take several times as long to compile as all the rest.
if [[ -z ${TANDEM_CUDA:-} ]] && command -v nvcc >/dev/null && ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  export TANDEM_CUDA=OFF
  echo "No GPU is seen: the CUDA backend is left out. TANDEM_CUDA=ON ./quickstart.sh builds it too."
fi
tools/build_preset.sh release tandem

echo "== 3/3 Training ($config)"
arguments=(train "$config" --out "$run")
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

ranks=2
if (($(nproc) < 2)); then ranks=1; fi
# Thread placement is Tandem's: mpirun's default would bind both threads of a rank to one core.
# mpirun kills a second after Ctrl-C by default; a checkpoint may take longer on a busy disk.
launch=(mpirun -n "$ranks" --bind-to none --mca odls_base_sigkill_timeout 30)
# mpirun counts cores, not hardware threads; where they cannot be told, it is told to go ahead.
cores=$(lscpu --parse=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l || true)
if ((cores < ranks)); then launch+=(--oversubscribe); fi
if ((EUID == 0)); then launch+=(--allow-run-as-root); fi

# On Ctrl-C the ranks write a checkpoint and mpirun ends; this script then says how to go on.
trap ':' INT TERM
status=0
"${launch[@]}" "$program" "${arguments[@]}" || status=$?
trap - INT TERM
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
