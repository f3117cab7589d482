#!/usr/bin/env bash
# tools/pack_build.sh on a build of one program and one script. Arguments: source tree, a folder of the
# test's own, the program `tandem`.
set -euo pipefail
pack=$1/tools/pack_build.sh
rm -rf "$2"
mkdir -p "$2/build/bin/tests"
cd "$2"
cp "$3" build/bin/tandem
printf '#!/bin/sh\necho a script\n' >build/bin/tests/script
chmod +x build/bin/tests/script

"$pack" build all.tar.xz | grep -q '^all.tar.xz: 2 programs and [1-9]'
mkdir there
tar -C there -xf all.tar.xz
[[ $(there/bin/tests/script) == "a script" ]]
LD_LIBRARY_PATH=there/lib there/bin/tandem --version
LD_LIBRARY_PATH=there/lib ldd there/bin/tandem | grep -q " there/lib/"
# What is the other host's own.
for name in libc.so libstdc++ libmpi libcudnn libnccl libcuda; do
  if compgen -G "there/lib/$name*" >/dev/null; then echo "$name is packed" >&2 && exit 1; fi
done

"$pack" build one.tar.xz tests/script
[[ $(tar -tf one.tar.xz | grep -c '^bin/.*[^/]$') == 1 ]]

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
