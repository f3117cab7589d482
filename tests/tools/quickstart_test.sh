#!/usr/bin/env bash
# quickstart_test.sh SOURCE WORK: what quickstart.sh starts, on how many GPUs, and that it ends as the
# training does. The program is made up: it says how many GPUs it can use, and keeps its command line.
set -euo pipefail
source=$1
work=$2

rm -rf "$work"
mkdir -p "$work/tools" "$work/examples/fashion_mnist" "$work/build/release/bin"
cp "$source/quickstart.sh" "$work"
cp "$source/examples/fashion_mnist/quickstart.toml" "$work/examples/fashion_mnist"
for tool in install_dependencies build_preset; do
  printf '#!/bin/sh\n' >"$work/tools/$tool.sh"
  chmod +x "$work/tools/$tool.sh"
done
# As a machine whose driver sees GPUs, whatever the program was built with.
mkdir "$work/bin"
printf '#!/bin/sh\nfor gpu in 0 1 2 3 4; do echo "GPU $gpu: made up"; done\n' >"$work/bin/nvidia-smi"
cat >"$work/build/release/bin/tandem" <<'SH'
#!/usr/bin/env bash
# heeds NUMBER: waits until quickstart.sh has set its trap for that signal.
heeds() {
  until (((0x$(awk '/SigCgt/ {print $2}' "/proc/$PPID/status") >> ($1 - 1)) & 1)); do sleep 0.05; done
}
case $1 in
  doctor) echo "$BACKENDS" ;;
  launch)
    echo "$*" >launched
    if [[ ${STOPPED:-} == terminal ]]; then
      # As Ctrl-C in a terminal: the whole process group gets it, and the ranks take a while to stop.
      trap '' TERM
      heeds 2
      kill -INT 0
      sleep 0.5
      echo "checkpoint written"
    elif [[ -n ${STOPPED:-} ]]; then
      # The signal and the job's end reach quickstart.sh together.
      trap '' TERM
      heeds 15
      kill -TERM "$PPID"
    fi
    exit 75
    ;;
esac
SH
chmod +x "$work/bin/nvidia-smi" "$work/build/release/bin/tandem"

# launched BACKENDS: the placement that is started where doctor says that. Training ends with 75.
launched() {
  local status=0
  # In a process group of its own, which it may signal.
  (cd "$work" && BACKENDS=$1 STOPPED=${2:-} PATH=$work/bin:$PATH \
    setsid --wait env --default-signal=INT ./quickstart.sh >log 2>&1) || status=$?
  if ((status != 75)); then
    echo "quickstart.sh ended with $status instead of the training's 75:" >&2
    cat "$work/log" >&2
    exit 1
  fi
  sed 's/ -- .*//' "$work/launched"
}

# expect WHAT WANTED GOT
expect() {
  [[ $2 == "$3" ]] && return
  printf '%s: expected\n%s\nbut found\n%s\n' "$@" >&2
  exit 1
}

cuda() { echo "ok  backends    CPU (oneDNN), CUDA (cuDNN, NCCL): $1 GPUs can be used"; }
host="launch --gpus none --ranks-per-gpu $(($(nproc) < 2 ? 1 : 2))"
for each in 1:1 2:2 3:2 4:4 5:4 6:4 7:4 8:8; do
  expect "of ${each%:*} GPUs" "launch --gpus ${each#*:}" "$(launched "$(cuda "${each%:*}")")"
done
expect "no GPU" "$host" "$(launched "$(cuda 0)")"
expect "a build without CUDA" "$host" \
  "$(launched "ok  backends    CPU (oneDNN). This build has no CUDA backend: GPUs, CUDA, cuDNN, ...")"
# Which of the two is first changes.
for _ in {1..5}; do expect "stopped" "$host" "$(launched "$(cuda 0)" yes)"; done
expect "stopped in a terminal" "$host" "$(launched "$(cuda 0)" terminal)"
expect "its last words" "checkpoint written
Training was stopped. ./quickstart.sh goes on from the checkpoint." \
  "$(tail -n 2 "$work/log")"
# A run that trains keeps its folder.
run=$work/runs/quickstart
mkdir -p "$run"
echo "somewhere, process 7" >"$run/run.lock"
status=0
(cd "$work" && flock "$run/run.lock" env PATH="$work/bin:$PATH" ./quickstart.sh >log 2>&1) || status=$?
expect "beside another run" 2 "$status"
expect "its words" "quickstart.sh: a run trains in runs/quickstart already (somewhere, process 7); wait for its end, or stop it" \
  "$(tail -n 1 "$work/log")"
expect "the other run's folder" "$run" "$(echo "$work"/runs/*)"
# One that was killed has left its lock's file alone.
expect "behind a run that was killed" "$host" "$(launched "$(cuda 0)")"
