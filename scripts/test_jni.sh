#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds packages/android's library against the runtime of build/, as an application's build does, and runs its tests
# on this machine's Java. What needs Android itself, src/main/kotlin/org/mebp/android and the example, is only checked
# for types, against test/packages/android's declarations of what it calls. `test_jni.sh demo` runs the demo instead.
set -euo pipefail
cd "$(dirname "$0")/.."

jars=/usr/share/java
if ! ls "$jars"/{junit4,hamcrest-core}.jar >/dev/null 2>&1 ||
  ! compgen -G '/usr/lib/jvm/java-17-openjdk-*/include/jni.h' >/dev/null; then
  scripts/setup.sh jni
fi
JAVA_HOME=$(dirname "$(dirname "$(compgen -G '/usr/lib/jvm/java-17-openjdk-*/include/jni.h' | head -n 1)")")
export JAVA_HOME

test/packages/prepare.sh
build=build/packages
[ -f "$build/jni/build.ninja" ] ||
  cmake -G Ninja -S packages/android/mebp/src/main/cpp -B "$build/jni" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$PWD/$build/prefix" -DCMAKE_COMPILE_WARNING_AS_ERROR="${MEBP_WERROR:-OFF}" >/dev/null
ninja -C "$build/jni" --quiet

# A wheel that has Kotlin's compiler and coroutines: Debian's are from 2019, without Flow.
version=0.19.0.944
kotlin=$build/kotlin-$version
if [ ! -d "$kotlin" ]; then
  .venv/bin/python -m pip download -qq --no-deps --dest "$build" "kotlin-jupyter-kernel==$version"
  .venv/bin/python -m zipfile -e "$build/kotlin_jupyter_kernel-$version-py3-none-any.whl" "$kotlin.part"
  mv "$kotlin.part" "$kotlin"
fi
libraries=$(printf '%s:' "$kotlin"/run_kotlin_kernel/jars/kotlin*.jar)$jars/junit4.jar
compile() { # OUTPUT SOURCE...
  "$JAVA_HOME/bin/java" -cp "$libraries" org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -no-stdlib -no-reflect -Werror \
    -jvm-target 1.8 -cp "$libraries" "${@:2}" -d "$1" >"$build/kotlin.log" 2>&1 ||
    { cat "$build/kotlin.log" >&2; exit 1; }
}

package=packages/android/mebp/src
compile "$build/classes.jar" "$package"/main/kotlin/org/mebp/*.kt
compile "$build/android.jar" "$package"/main/kotlin/org/mebp/{,android/}*.kt test/packages/android/*.kt \
  packages/android/example/src/main/kotlin/org/mebp/example/*.kt

# An AAR as a phone's, but for this machine: the tests run what they take out of it.
rm -rf "$build/aar" "$build/repository"
abi=$(uname -m | sed 's/aarch64/arm64-v8a/')
given=()
for library in "$build"/jni/libmebp_{,text_}jni.so "$build"/prefix/lib/libmebp.so.[0-9]* "$build/prefix/lib/libmebp_text.so"; do
  given+=(--library "$abi=$library")
done
.venv/bin/python packages/android/assemble.py --classes "$build/classes.jar" "${given[@]}" --version 0 \
  -o "$build/repository" >/dev/null
.venv/bin/python test/packages/check_aar.py "$build/repository" "$build/aar"
libraries=$build/aar/classes.jar:$libraries
compile "$build/tests.jar" -Xfriend-paths="$build/aar/classes.jar" "$package"/test/kotlin/org/mebp/*.kt

if [ "${1:-}" = demo ]; then # with scripts/demo.sh's model and settings
  demo=$build/demo
  .venv/bin/python -m mebp export packaged:smollm2 -o "$demo/model/model.onnx" --seq-len 256 >/dev/null
  build/bin/mebpc "$demo/model/model.onnx" -o "$demo/smollm2.mebp" --seq-len 128 --batch 4 --generate-len 256 \
    --weights int4 --precision bf16 >/dev/null
  tests=(Demo)
else
  tests=("$package"/test/kotlin/org/mebp/*Test.kt)
  tests=("${tests[@]##*/}")
fi
# The virtual machine checks what the library asks of it, too. That the runtime handles SIGBUS, which a file that is cut
# off causes, and hands on to the virtual machine what is not its own, it cannot know.
LD_LIBRARY_PATH="$build/aar/jni/$abi" "$JAVA_HOME/bin/java" -Xcheck:jni -Djava.library.path="$build/aar/jni/$abi" \
  -Dmebp.bundle="$build/bundle.mebp" -Dmebp.text="$build/text" -Dmebp.demo="$build/demo" \
  -cp "$build/tests.jar:$libraries:$jars/hamcrest-core.jar" \
  org.junit.runner.JUnitCore $(printf 'org.mebp.%s ' "${tests[@]%.kt}") >"$build/tests.log" ||
  { cat "$build/tests.log" >&2; exit 1; }
if grep -E '^(WARNING in native|FATAL ERROR in native)' "$build/tests.log" >&2; then
  exit 1
fi
grep -E '^OK|answers are right' "$build/tests.log"
