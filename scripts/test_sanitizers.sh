#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the runtime with sanitizers and runs its tests, and with AddressSanitizer its readers on the fuzzers' corpus, each
# of which is one thread. The kernels' own tests take minutes there: `cmake --workflow --preset asan` has them, and the
# compiler's.
set -euo pipefail
cd "$(dirname "$0")/.."

for preset in runtime-asan tsan; do
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >/dev/null
  targets=(runtime_tests net_tests)
  # ThreadSanitizer would have to see inside gRPC, which is not built with it.
  [ "$preset" = tsan ] || targets+=(grpc_tests fuzzers)
  cmake --build --preset "$preset" --target "${targets[@]}" -- --quiet
  export ASAN_OPTIONS=allow_user_poisoning=0 UBSAN_OPTIONS=print_stacktrace=1
  # What counts memory takes several times over with ThreadSanitizer.
  "build/$preset/bin/runtime_tests" --gtest_brief=1 --gtest_filter='-Memory.Counts*'
  for program in net_tests grpc_tests; do
    [ ! -x "build/$preset/bin/$program" ] || "build/$preset/bin/$program" --gtest_brief=1
  done
  [ "$preset" = tsan ] || ctest --test-dir "build/$preset/test/fuzz" --output-on-failure --no-tests=error -j "$(nproc)"
done
