#!/bin/sh
# failing_rank.sh PROGRAM MPIRUN...: a rank that fails must end the whole job, soon, with its code.
program=$1
shift
status=0

# KIND:CODE:TEXT, a pattern of what the rank itself says. mpirun's own box is not looked for: it may
# lose one while it ends a job.
for case in "abort:3:this rank fails on purpose [[]*, rank 2]" \
  "unwind:5:this rank fails on purpose [[]*, rank 2]" \
  "killed:137:rank 2 on $(hostname) ended without a word, waited for in a step: killed" \
  "absent:3:waited 6 s in the first meeting of all ranks for rank 2, which gives no sign of life" \
  "apart:3:in the first meeting of all ranks though all ranks give signs of life: the MPI of one" \
  "stopped:1:waited 5 s in MPI_Init for rank 2 on $(hostname), which is stopped; look" \
  "late:1:waited 5 s in MPI_Init for rank 2 on $(hostname), which has not come to it; look"; do
  kind=${case%%:*}
  rest=${case#*:}
  expected=${rest%%:*}
  text=${rest#*:}
  case $kind in
    stopped | late) export TANDEM_START_SECONDS=5 ;;
  esac
  output=$(timeout -k 5 120 "$@" "$program" "$kind" 2>&1)
  code=$?
  if [ "$code" -ne "$expected" ]; then
    echo "$kind: the job ended with code $code, not $expected"
    echo "$output"
    status=1
  fi
  case $output in
    *$text*) ;;
    *) echo "$kind: the error does not say '$text': $output"; status=1 ;;
  esac
  if [ "$(echo "$output" | grep -c 'waited [0-9]* s in\|ended without a word\|the device failed')" -gt 1 ]; then
    echo "$kind: several ranks tell of it: $output"
    status=1
  fi
done
exit $status
