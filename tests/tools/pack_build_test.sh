#!/usr/bin/env bash
# tools/pack_build.sh on a build of one program and some scripts. Arguments: source tree, a folder of the
# test's own, a small program of GoogleTest.
set -euo pipefail
pack=$1/tools/pack_build.sh
rm -rf "$2"
mkdir -p "$2/build/bin/tests"
cd "$2"
cp "$3" build/bin/tandem
printf '#!/bin/sh\necho a script\n' >build/bin/tests/script
chmod +x build/bin/tests/script

[[ $("$pack" build both.tar.xz tandem tests/script) == "both.tar.xz: 2 programs and "[1-9]* ]]
mkdir there
tar -C there -xf both.tar.xz
[[ $(there/bin/tests/script) == "a script" ]]
LD_LIBRARY_PATH=there/lib there/bin/tandem --gtest_list_tests >list
[[ $(LD_LIBRARY_PATH=there/lib ldd there/bin/tandem) == *" there/lib/"* ]]
# What is the other host's own.
for name in libc.so libstdc++ libmpi libcudnn libnccl libcuda; do
  if compgen -G "there/lib/$name*" >/dev/null; then echo "$name is packed" >&2 && exit 1; fi
done

"$pack" build one.tar.xz tests/script
[[ $(tar -tf one.tar.xz | grep -c '^bin/.*[^/]$') == 1 ]]

# Without names, all that the checks on GPUs run, and what tests load.
mapfile -t wanted < <("$1/tools/gpu_checks.py" --programs)
((${#wanted[@]} > 10))
for program in "${wanted[@]:1}"; do cp build/bin/tests/script "build/bin/$program"; done
cp build/bin/tests/script build/bin/tests/libtandem_fault.so
[[ $("$pack" build all.tar.xz) == "all.tar.xz: $((${#wanted[@]} + 1)) programs"* ]]
packed=$(tar -tf all.tar.xz)
[[ $packed == *bin/tests/libtandem_fault.so* ]]
if [[ $packed == *script* ]]; then echo "more is packed than is wanted" >&2 && exit 1; fi

fails() { # MESSAGE ARGUMENT...
  local said status=0
  said=$("$pack" "${@:2}" 2>&1) || status=$?
  if [[ $status != 2 || $said != *"$1"* ]]; then
    echo "pack_build.sh ${*:2} ended with $status: $said" >&2
    exit 1
  fi
}
fails "give a build folder and an archive" build
fails "nowhere/bin: no such folder" nowhere x.tar.xz
fails "build/bin/nothing: no such program" build x.tar.xz nothing
