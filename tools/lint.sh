#!/usr/bin/env bash
# clang-format and clang-tidy over the sources.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: tools/lint.sh [--all] [--since COMMIT] [--build FOLDER] [--format-only] [--fix] [FILE...]

Checks the format (.clang-format) and lints (.clang-tidy) the C++ files that differ from COMMIT,
untracked ones included. Linting needs a configured build folder.

  --all            every file of the repository
  --since COMMIT   default HEAD
  --build FOLDER   where compile_commands.json is; default build/ci
  --format-only    clang-format alone; needs no build folder
  --fix            rewrite the format in place instead of checking it
TEXT
}

all=no since=HEAD build=build/ci tidy=yes format=(--dry-run -Werror) files=()
while (($# > 0)); do
  case $1 in
    --all) all=yes ;;
    --since) since=$2 && shift ;;
    --build) build=$2 && shift ;;
    --format-only) tidy=no ;;
    --fix) format=(-i) ;;
    --help | -h) usage && exit 0 ;;
    -*) echo "lint.sh: unknown option '$1'; see --help" >&2 && exit 2 ;;
    *) files+=("$1") ;;
  esac
  shift
done

patterns=('*.h' '*.cpp' '*.cu' '*.cuh')
if [[ $all == yes ]]; then
  mapfile -t files < <(git ls-files -- "${patterns[@]}")
elif ((${#files[@]} == 0)); then
  mapfile -t files < <(
    git diff --name-only --diff-filter=d "$since" -- "${patterns[@]}"
    git ls-files --others --exclude-standard -- "${patterns[@]}"
  )
fi
if ((${#files[@]} == 0)); then echo "lint: no changed files" && exit 0; fi

clang-format "${format[@]}" "${files[@]}"
echo "lint: the format of ${#files[@]} files is right"
if [[ $tidy == no ]]; then exit 0; fi

if [[ ! -f $build/compile_commands.json ]]; then
  echo "lint: $build has no compile_commands.json; run cmake --preset ci or name a folder with --build" >&2
  exit 1
fi
# Headers are linted through the sources that include them. Files outside this build (consumers of
# the package, other backends) are not in the compile commands and are left out.
sources=()
for file in "${files[@]}"; do
  if [[ $file == *.cpp ]] && grep -qF "/$file\"" "$build/compile_commands.json"; then
    sources+=("$file")
  fi
done
if ((${#sources[@]} == 0)); then echo "lint: no sources to lint" && exit 0; fi
# clang-tidy reads no headers that a compiler has compiled, and sources are to include what they use without
# them; GCC and clang name them in different ways.
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
sed -E 's# (-Xclang )?-include(-pch)? (-Xclang )?[^ ]*/cmake_pch\.hxx(\.pch)?##g' "$build/compile_commands.json" >"$commands/compile_commands.json"
printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy -p "$commands" --quiet --warnings-as-errors='*'
echo "lint: ${#sources[@]} sources are clean"
