#!/usr/bin/env bash
# Packs what a build made for a host that has GPUs, but nothing to build with.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: tools/pack_build.sh BUILD ARCHIVE.tar.xz [PROGRAM ...]

Packs programs of BUILD/bin, those that tools/gpu_checks.py runs or those that are named (tandem,
tests/test_graph_cuda, ...), without their debug information, with what tests load or start beside them, and
in lib the shared libraries that they were linked with. Left out is what must be that host's own: the C and
C++ libraries, MPI, CUDA, cuDNN and NCCL, of the same major versions.

There, unpack it as a folder BUILD at the path that it has here, beside the source tree: tests name files
of both. A link to where they are does.

  tar -C BUILD -xf ARCHIVE.tar.xz
  LD_LIBRARY_PATH=BUILD/lib tools/device_tests.py BUILD/bin/tests/test_layers_cuda --jobs 12 --mps
TEXT
}

fail() {
  echo "pack_build.sh: $1" >&2
  exit 2
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then usage && exit 0; fi
(($# >= 2)) || fail "give a build folder and an archive; see --help"
build=$1
archive=$2
shift 2
[[ -d $build/bin ]] || fail "$build/bin: no such folder; build first (docs/install.md)"
for tool in strip ldd tar xz python3; do
  command -v "$tool" >/dev/null || fail "$tool is missing (packages binutils, libc-bin, tar, xz-utils, python3)"
done

programs=("$@")
if ((${#programs[@]} == 0)); then
  listed=$("$(dirname "${BASH_SOURCE[0]}")/gpu_checks.py" --programs)
  mapfile -t programs <<<"$listed"
  mapfile -t -O "${#programs[@]}" programs < <(
    cd "$build/bin" && find tests -name '*.so' -o -name tandem_faulty_client | sort)
fi
packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT
for program in "${programs[@]}"; do
  [[ -f $build/bin/$program ]] || fail "$build/bin/$program: no such program"
  mkdir -p "$packed/bin/$(dirname "$program")"
  # What is no program (a script that a test starts) goes as it is.
  strip -o "$packed/bin/$program" "$build/bin/$program" 2>/dev/null ||
    cp "$build/bin/$program" "$packed/bin/$program"
done

# Names of libraries that must fit that host's system, drivers and network.
own='^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|gomp|z|lzma|xml2|udev|cap)|lib(cuda|cudart|cublas|cublasLt|cudnn.*|nccl|nv.*)|lib(mpi.*|open-(rte|pal)|hwloc|event.*|pmix|ucp|uct|ucs|ucm|icu.*))[.-]'
mkdir -p "$packed/lib"
find "$packed/bin" -type f | while read -r file; do ldd "$file" 2>/dev/null || true; done |
  awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
  while read -r name path; do
    if ! [[ $name =~ $own ]]; then cp -L "$path" "$packed/lib/$name"; fi
  done

tar -C "$packed" -cf - bin lib |
  xz --threads=1 --lzma2=preset=4,dict=256MiB >"$archive.part"
mv "$archive.part" "$archive"
echo "$archive: ${#programs[@]} programs and $(find "$packed/lib" -type f | wc -l) libraries, $(du -h "$archive" | cut -f1)"
