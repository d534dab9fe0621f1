#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds packages/swift and runs its tests: with the `swift` that is here, else with Debian 13's, in a root of its own,
# which takes minutes to make, 3 GB below build/, and the right to mount. What needs Apple's systems is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

test/packages/prepare.sh
build=build/packages
there=$PWD
inside() { "$@"; }
if ! command -v swift >/dev/null; then
  root=$PWD/$build/swift-root
  there=/mebp
  if [ ! -e "$root/made" ]; then
    command -v debootstrap >/dev/null || scripts/setup.sh wheel
    unshare --mount --pid --fork true 2>/dev/null ||
      { echo "test_swift: there is no swift here; install it, or run this as root, which makes a system that has it" >&2; exit 2; }
    echo "making a system that has Swift"
    rm -rf --one-file-system "$root"
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $(. /etc/os-release && echo "$VERSION_CODENAME")" | head -n 1)
    debootstrap --variant=minbase --include=swiftlang,libc6-dev,libstdc++-14-dev trixie "$root" $mirror >"$build/swift-root.log" ||
      { tail -n 20 "$build/swift-root.log" >&2; exit 2; }
    mkdir "$root/mebp"
    touch "$root/made"
  fi
  inside() {
    unshare --mount --pid --fork bash -c 'mount --bind "$1" "$2/mebp" && mount -t proc proc "$2/proc" && exec chroot "${@:2}"' \
      inside "$PWD" "$root" "$@"
  }
  # What the libraries were linked with here, that system has in other versions.
  mkdir -p "$build/libraries"
  ldd "$build"/prefix/lib/libmebp{.so.1,_text.so} | awk '/hwy|pcre2|utf8proc/ { print $3 }' | xargs -r cp -L -t "$build/libraries"
fi

inside env HOME="$there/$build" MEBP_BUNDLE="$there/$build/bundle.mebp" \
  MEBP_TEXT="$there/$build/text" \
  PKG_CONFIG_PATH="$there/$build/prefix/lib/pkgconfig" LD_LIBRARY_PATH="$there/$build/libraries:$there/$build/prefix/lib" \
  swift test --package-path "$there/packages/swift" --scratch-path "$there/$build/swift" --disable-swift-testing \
  -Xswiftc -strict-concurrency=complete -Xswiftc -warnings-as-errors >"$build/swift.log" 2>&1 ||
  { cat "$build/swift.log" >&2; exit 1; }

# What the example calls of Apple's systems, checked for types against declarations; its windows are not.
swift=$there/$build/swift
headers=$there/$build/prefix/include
inside mkdir -p "$swift/apple"
inside swiftc -emit-module -module-name BackgroundTasks -o "$swift/apple/BackgroundTasks.swiftmodule" \
  "$there/test/packages/apple/BackgroundTasks.swift" -parse-as-library
inside swiftc -typecheck -parse-as-library -strict-concurrency=complete -warnings-as-errors -Xcc "-I$headers" \
  -I "$swift/apple" -I "$swift/debug/Modules" -I "$there/packages/swift/Sources/CMebp" \
  "$there"/packages/swift/Example/{ChargingTask,Conversations}.swift
grep 'Executed' "$build/swift.log" | tail -n 1
