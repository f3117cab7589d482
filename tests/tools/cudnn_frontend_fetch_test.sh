#!/usr/bin/env bash
# cudnn_frontend_fetch_test.sh SOURCE WORK CMAKE: when cmake/Cuda.cmake fetches cudnn-frontend, and what it
# says where that fails. Git takes a repository of the test's own for the one on GitHub.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/made_up_toolkit.sh" "$@"

version=$(sed -n 's/^cudnn_frontend_version=//p' "$source/tools/install_dependencies.sh")
IFS=. read -r major minor patch <<<"$version"
url=https://github.com/NVIDIA/cudnn-frontend
repository=$work/repository
given=$work/given
fetched=$work/build/_deps/cudnn_frontend-src/include

make_toolkit 12.8.93
rm "$toolkit"/include/cudnn_frontend*.h

# What is below is to be read, never built.
make_headers "$repository/include" "$major" "$minor" "$patch"
echo 'message(FATAL_ERROR "its own build was entered")' >"$repository/CMakeLists.txt"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
in_repository() { git -C "$repository" -c user.name=test -c user.email=test@example.org "$@" >/dev/null; }
in_repository init --quiet
in_repository add .
in_repository commit --quiet --message "headers"
in_repository tag "v$version"
export GIT_CONFIG_COUNT=1 GIT_CONFIG_VALUE_0=$url
there() { export "GIT_CONFIG_KEY_0=url.file://$repository.insteadOf"; }
gone() { export "GIT_CONFIG_KEY_0=url.file://$work/nowhere.insteadOf"; }

fetching=(-D TANDEM_FETCH_CUDNN_FRONTEND=ON -D "TANDEM_CUDNN_FRONTEND_DIR=$given")
# finds WHAT FOLDER TIMES: and says so many times that it was fetched just now.
finds() {
  expect "$1" "cudnn-frontend $version in $2" "$(said | sed 's/.*, \(cudnn-frontend.*\), NCCL.*/\1/')"
  expect "$1" "$3" "$(grep -c "^-- cudnn-frontend: v$version fetched from $url\$" "$work/log" || true)"
}
by="by tools/install_dependencies.sh --cuda or -DTANDEM_CUDNN_FRONTEND_DIR=... (1.13 or later)"
# fails WHAT REASON
fails() {
  expect "$1" "left out; not found: cudnn-frontend's headers (v$version could not be fetched from $url: $2), $by" \
    "$(said)"
}
nowhere="'$work/nowhere' does not appear to be a git repository"

there
expect "fetched" 0 "$(configure AUTO "${fetching[@]}")"
finds "fetched" "$fetched" 1
gone
expect "fetched before" 0 "$(configure_again AUTO "${fetching[@]}")"
finds "fetched before" "$fetched" 0
expect "fetched before, disconnected" 0 \
  "$(configure_again AUTO "${fetching[@]}" -D FETCHCONTENT_FULLY_DISCONNECTED=ON)"
finds "fetched before, disconnected" "$fetched" 0
expect "offline" 0 "$(configure AUTO "${fetching[@]}")"
fails "offline" "$nowhere"
expect "ON, offline" 1 "$(configure ON "${fetching[@]}")"
expect "ON, offline" "TANDEM_CUDA=ON, but not found: cudnn-frontend's headers" "$(said | cut -d '(' -f 1 | sed 's/ $//')"
there
expect "back again" 0 "$(configure_again ON "${fetching[@]}")"
finds "back again" "$fetched" 1
in_repository tag --delete "v$version"
expect "without the tag" 0 "$(configure AUTO "${fetching[@]}")"
fails "without the tag" "invalid reference: v$version"
expect "disconnected" 0 "$(configure AUTO "${fetching[@]}" -D FETCHCONTENT_FULLY_DISCONNECTED=ON)"
fails "disconnected" "FETCHCONTENT_FULLY_DISCONNECTED is set"

source_of_its_own="-DFETCHCONTENT_SOURCE_DIR_CUDNN_FRONTEND=$repository"
expect "a source of one's own" 0 "$(configure AUTO "${fetching[@]}" "$source_of_its_own")"
finds "a source of one's own" "$repository/include" 0
expect "an empty source of one's own" 0 "$(configure AUTO "${fetching[@]}" "$source_of_its_own/include")"
fails "an empty source of one's own" "no include/cudnn_frontend.h in $repository/include"

expect "not to fetch" 0 "$(configure AUTO "${fetching[@]}" -D TANDEM_FETCH_CUDNN_FRONTEND=OFF)"
expect "not to fetch" "left out; not found: cudnn-frontend's headers $by" "$(said)"
make_headers "$given" "$major" "$minor" "$patch"
expect "a given path" 0 "$(configure AUTO "${fetching[@]}")"
finds "a given path" "$given" 0
rm -r "$given"
rm "$toolkit/lib64/libnccl.so"
expect "without NCCL" 0 "$(configure AUTO "${fetching[@]}")"
expect "without NCCL" "left out; not found: NCCL (2.18 or later), cudnn-frontend's headers $by" "$(said)"
expect "without NCCL" "" "$(ls "$work/build/_deps" 2>/dev/null || true)"
