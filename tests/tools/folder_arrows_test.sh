#!/usr/bin/env bash
# folder_arrows_test.sh SOURCE FOLDER: what tools/folder_arrows.py says of folders that are made up, and of
# the project's own with an include that is not allowed.
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
# expect STATUS FOLDER: runs the tool, whose errors are then in $said.
expect() {
  local status=0
  said=$("$source/tools/folder_arrows.py" "$2" 2>&1 > /dev/null) || status=$?
  [[ $status == "$1" ]] || fail "ended with $status instead of $1: $said"
}
expect_lines() {
  for line in "$@"; do
    grep -qF -- "$line" <<< "$said" || fail "no '$line' in: $said"
  done
}

cat > src/folder_arrows.txt <<'END'
# A remark.
low:
high: low  # and another

high/second: first
high/third: first second
END
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

# Arrows that the table has not, without a circle: of folders, and of what is inside one.
includes high/second/a.cu high/first/a.h low/a.h high/third/b.h
includes high/third/a.h high/first/a.h
expect 1 .
expect_lines 'error: src/high/second/a.cu:3 includes high/third/b.h; src/high/second may include first alone beside it in src/high (src/folder_arrows.txt)'
[[ $(wc -l <<< "$said") == 1 ]] || fail "more errors than there are: $said"
includes high/second/a.cu high/first/a.h
rm src/high/first/a.h
includes low/a.h high/common.h
expect 1 .
expect_lines 'error: src/low/a.h:1 includes high/common.h; src/low may include nothing (src/folder_arrows.txt)'
includes high/third/a.h high/second/a.h

# A circle of three parts, and one of folders that headers alone close.
includes high/first/a.h low/a.h high/third/b.cuh
includes low/a.h high/common.h
expect 1 .
expect_lines 'error: src/ has a circle: ' 'error: src/high/ has a circle: ' \
  '  src/low/a.h:1 includes high/common.h' '  src/high/first/a.h:2 includes high/third/b.cuh' \
  '  src/high/second/a.cu:1 includes high/first/a.h'

# One that the folder's own headers close, which include each other.
includes low/a.h
includes high/first/a.h high/common.h
includes high/common.h high/other.h low/a.h
includes high/other.h high/common.h high/first/a.h high/second/a.h
includes high/second/a.cu high/first/a.h
expect 1 .
expect_lines '  src/high/first/a.h:1 includes high/common.h, which includes high/other.h, which includes high/second/a.h'

# Tables that cannot be meant.
echo 'high low' > src/folder_arrows.txt
expect 2 .
expect_lines 'src/folder_arrows.txt:1: write FOLDER: and what it may include'
echo 'high/first: low' > src/folder_arrows.txt
expect 2 .
expect_lines 'src/folder_arrows.txt:1: src/high/low is no folder'
expect 2 src/low

# The project's own folders and table.
mkdir project
cp -r "$source/src" project
expect 0 project
header=project/src/data/data_loader.h
lines=$(wc -l < "$header")
echo '#include "layers/layer.h"' >> "$header"
expect 1 project
expect_lines "error: src/data/data_loader.h:$((lines + 1)) includes layers/layer.h; src/data may include base device tensor alone (src/folder_arrows.txt)"
