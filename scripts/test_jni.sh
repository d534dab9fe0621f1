#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds packages/android's library against the runtime of build/, as an application's build does, and runs its tests
# on this machine's Java. What needs Android itself, src/main/kotlin/org/mebp/android and the example, is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

jars=/usr/share/java
needed=("$jars"/{kotlin-stdlib,kotlinx-coroutines-core,atomicfu,junit4,hamcrest-core}.jar)
if ! command -v kotlinc >/dev/null || ! ls "${needed[@]}" >/dev/null 2>&1 ||
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

sources=(packages/android/mebp/src/{main,test}/kotlin/org/mebp/*.kt)
libraries=$jars/kotlinx-coroutines-core.jar:$jars/junit4.jar
kotlinc -nowarn -jvm-target 1.8 -cp "$libraries" "${sources[@]}" -d "$build/tests.jar"

# The virtual machine checks what the library asks of it, too. That the runtime handles SIGBUS, which a file that is cut
# off causes, and hands on to the virtual machine what is not its own, it cannot know.
"$JAVA_HOME/bin/java" -Xcheck:jni -Djava.library.path="$build/jni" -Dmebp.bundle="$build/bundle.mebp" \
  -cp "$build/tests.jar:$libraries:$jars/atomicfu.jar:$jars/kotlin-stdlib.jar:$jars/hamcrest-core.jar" \
  org.junit.runner.JUnitCore org.mebp.TrainingTest org.mebp.RefusalTest >"$build/tests.log" ||
  { cat "$build/tests.log" >&2; exit 1; }
if grep -E '^(WARNING in native|FATAL ERROR in native)' "$build/tests.log" >&2; then
  exit 1
fi
grep '^OK' "$build/tests.log"
