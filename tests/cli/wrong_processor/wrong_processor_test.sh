#!/usr/bin/env bash
# wrong_processor_test.sh PROGRAM: says what the processor lacks and ends before it runs anything.
set -euo pipefail
code=0
out=$("$1" 2>&1) || code=$?
expected="error: tandem was compiled for processors with AVX5124FMAPS, which this one lacks: build it with"
expected+=" -DTANDEM_NATIVE=OFF (docs/install.md)"
if [[ $out != "$expected" || $code != 1 ]]; then
  echo "exit code $code, output: $out" >&2
  exit 1
fi
