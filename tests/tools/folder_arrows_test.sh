#!/usr/bin/env bash
# folder_arrows_test.sh SOURCE FOLDER: what tools/folder_arrows.py says of folders that are made up.
set -euo pipefail
source=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"/src/{low,high/{first,second,third}}
cd "$folder"

fail() {
  echo "folder_arrows_test.sh: $*" >&2
  exit 1
}
includes() { printf '#include "%s"\n' "${@:2}" > "src/$1"; }

includes low/a.h
includes high/all.cpp high/first/a.h high/third/a.h
includes high/first/a.h low/a.h high/common.h
includes high/second/a.cu high/first/a.h
includes high/third/a.h high/second/a.h
said=$("$source/tools/folder_arrows.py" .) || fail "one direction was refused: $said"
for line in 'src/high -> low' 'src/high/second -> first' 'src/high/third -> second'; do
  grep -qxF "$line" <<< "$said" || fail "no '$line' in: $said"
done
[[ $(wc -l <<< "$said") == 3 ]] || fail "more arrows than there are: $said"

# A circle of three parts, and one of folders that headers alone close.
includes high/first/a.h low/a.h high/third/b.cuh
includes low/a.h high/common.h
status=0
said=$("$source/tools/folder_arrows.py" . 2>&1 > /dev/null) || status=$?
[[ $status == 1 ]] || fail "circles ended with $status: $said"
for line in 'error: src/ has a circle: ' 'error: src/high/ has a circle: ' \
            '  low/a.h includes high/common.h' '  high/first/a.h includes high/third/b.cuh' \
            '  high/second/a.cu includes high/first/a.h'; do
  grep -qF -- "$line" <<< "$said" || fail "no '$line' in: $said"
done

# One that the folder's own headers close, which include each other.
includes low/a.h
includes high/first/a.h high/common.h
includes high/common.h high/other.h low/a.h
includes high/other.h high/common.h high/first/a.h high/second/a.h
includes high/second/a.cu high/first/a.h
status=0
said=$("$source/tools/folder_arrows.py" . 2>&1 > /dev/null) || status=$?
[[ $status == 1 ]] || fail "a circle by own headers ended with $status: $said"
way='high/first/a.h includes high/common.h, which includes high/other.h, which includes high/second/a.h'
grep -qxF -- "  $way" <<< "$said" || fail "no '$way' in: $said"

status=0
"$source/tools/folder_arrows.py" src/low 2> /dev/null || status=$?
[[ $status == 2 ]] || fail "a folder without src/ ended with $status"
