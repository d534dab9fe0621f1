#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make_aar.sh NDK [REPOSITORY]: builds the runtime and packages/android for arm64-v8a with an Android NDK, and makes the
# AAR and its pom in REPOSITORY (build/aar). Nobody has run this: there was no NDK. What assemble.py makes of the
# libraries is tested by scripts/test_jni.sh. Without an NDK, in packages/android, Gradle does the same.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f "${1:-}/build/cmake/android.toolchain.cmake" ] || { echo "make_aar: give the folder of an Android NDK" >&2; exit 2; }
repository=${2:-build/aar}
build=build/android
toolchain=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$1/build/cmake/android.toolchain.cmake"
  -DANDROID_ABI=arm64-v8a -DANDROID_PLATFORM=android-26 -DANDROID_STL=c++_shared)

# What the runtime is linked with, protobuf, PCRE2, utf8proc and others, has to be built as static libraries for Android too: MEBP_ANDROID_PREFIX has it.
cmake --preset runtime-only -B "$build/runtime" "${toolchain[@]}" \
  -DCMAKE_FIND_ROOT_PATH="${MEBP_ANDROID_PREFIX:?set it to where what the runtime needs is installed for arm64-v8a}"
cmake --build "$build/runtime"
cmake --install "$build/runtime" --prefix "$PWD/$build/prefix"
cmake -S packages/android/mebp/src/main/cpp -B "$build/jni" "${toolchain[@]}" \
  -DCMAKE_FIND_ROOT_PATH="$PWD/$build/prefix"
cmake --build "$build/jni"

scripts/test_jni.sh # compiles the classes, which are the same for every machine
libraries=()
for library in "$build"/jni/libmebp_{,text_}jni.so "$build"/prefix/lib/libmebp{,_text}.so \
  "$1"/toolchains/llvm/prebuilt/*/sysroot/usr/lib/aarch64-linux-android/libc++_shared.so; do
  libraries+=(--library "arm64-v8a=$library")
done
.venv/bin/python packages/android/assemble.py --classes build/packages/classes.jar "${libraries[@]}" \
  --version "$(sed -n 's/^project(mebp VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)" -o "$repository"
