#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make_xcframework.sh [OUTPUT]: on a Mac with Xcode, builds the runtime for iPhones, for their simulator and for Macs,
# and makes packages/swift/CMebp.xcframework of it, with libmebp_text. MEBP_APPLE_PREFIX has a folder for each of the
# three, such as ios-arm64, where what they need is installed, with static libraries of PCRE2 and utf8proc. Nobody has run
# this: there was no Mac. What assemble.py makes of the libraries is tested by test/python/test_packaging.py.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(uname)" = Darwin ] || { echo "make_xcframework: run this on a Mac with Xcode" >&2; exit 2; }
output=${1:-packages/swift/CMebp.xcframework}
needed=${MEBP_APPLE_PREFIX:?set it to a folder with ios-arm64, ios-arm64-simulator and macos-arm64, where PCRE2 and utf8proc are}
slices=()
build() { # IDENTIFIER CMAKE_OPTION...
  cmake --preset runtime-only -B "build/$1" -DCMAKE_OSX_ARCHITECTURES=arm64 -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_PREFIX_PATH="$needed/$1" "${@:2}"
  cmake --build "build/$1"
  cmake --install "build/$1" --prefix "$PWD/build/$1/prefix"
  # One archive of the runtime, of libmebp_text, and of what they are linked with.
  mkdir -p "build/$1/whole"
  find "build/$1" "$needed/$1"/lib/lib{pcre2-8,utf8proc}.a -not -path '*/whole/*' -not -path '*/test/*' \
    \( -name '*.a' -o -path '*/mebp_text_objects.dir/*.o' \) -print0 |
    xargs -0 libtool -static -o "build/$1/whole/libmebp.a"
  slices+=(--slice "$1=build/$1/whole/libmebp.a")
}
build ios-arm64 -DCMAKE_SYSTEM_NAME=iOS -DCMAKE_OSX_SYSROOT=iphoneos -DCMAKE_OSX_DEPLOYMENT_TARGET=15.0
build ios-arm64-simulator -DCMAKE_SYSTEM_NAME=iOS -DCMAKE_OSX_SYSROOT=iphonesimulator -DCMAKE_OSX_DEPLOYMENT_TARGET=15.0
build macos-arm64 -DCMAKE_OSX_DEPLOYMENT_TARGET=12.0
python3 packages/swift/assemble.py "${slices[@]}" --headers build/macos-arm64/prefix/include -o "$output"
