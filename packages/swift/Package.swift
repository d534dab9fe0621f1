// swift-tools-version:5.9
// SPDX-License-Identifier: Apache-2.0
import PackageDescription

// The runtime is found by pkg-config (docs/c-api.md). For iOS it comes as MEBP_XCFRAMEWORK, a path below this folder.
let framework = Context.environment["MEBP_XCFRAMEWORK"]
let runtime: Target = framework.map { .binaryTarget(name: "CMebp", path: $0) }
  ?? .systemLibrary(name: "CMebp", pkgConfig: "mebp")

// libmebp_text lies beside the runtime; an app that passes ids links without it. The framework holds both.
let text: [LinkerSetting] = framework == nil ? [.linkedLibrary("mebp_text")] : []

// A process for the tests to kill; an iPhone's apps start none.
let killed: [Target] = framework == nil
  ? [.executableTarget(name: "BackgroundTrainer", dependencies: ["Mebp"], path: "Tests/BackgroundTrainer")] : []

let package = Package(
  name: "Mebp",
  platforms: [.iOS(.v15), .macOS(.v12)],
  products: [
    .library(name: "Mebp", targets: ["Mebp"]),
    .library(name: "MebpText", targets: ["MebpText"]),
  ],
  targets: [
    runtime,
    .target(name: "Mebp", dependencies: ["CMebp"]),
    .target(name: "MebpText", dependencies: ["CMebp", "Mebp"], linkerSettings: text),
    .testTarget(name: "MebpTests", dependencies: ["Mebp", "MebpText"] + killed.map { .target(name: $0.name) }),
  ] + killed
)
