#!/usr/bin/env bash
# cuBLASLt's products in shares of a GPU's multiprocessors, each as an MPS client of a daemon of its
# own: products_in_sm_share.sh PROGRAM [PERCENT...] prints a line of JSON a share.
set -eu
program=$1
shift
[ $# -gt 0 ] || set -- 10 15 20 25 30 34 38 40 45 50 60 76 90 100
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../tests/support/with_mps.sh" bash -c '
  program=$1; shift
  for share in "$@"; do CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$share "$program"; done
' - "$program" "$@"
