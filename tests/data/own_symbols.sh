#!/usr/bin/env bash
# own_symbols.sh NM OBJECT...: object files define nothing that another one may define too, of which the
# linker would keep either.
set -euo pipefail
nm=$1
shift
(($# > 0)) || { echo "no object files" >&2 && exit 1; }
for object in "$@"; do
  defined=$("$nm" -C --defined-only "$object")
  [[ $defined == *resize_passes* ]] || { echo "$object: not a file of resize_passes" >&2 && exit 1; }
  if shared=$(grep -E ' [WVu] ' <<<"$defined"); then
    echo "$object defines what others may define too:" >&2
    echo "$shared" >&2
    exit 1
  fi
done
