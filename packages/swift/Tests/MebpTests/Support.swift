// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp
import XCTest

/// A bundle's three files behind one another in one file, as in an archive that compresses nothing.
final class Archive {
  let path: String
  let program, manifest, weights: ModelBundle.Part
  private let file: FileHandle

  init(_ bundle: String) throws {
    path = scratchPath()
    var content = Data("what comes first".utf8)
    var places: [(offset: UInt64, length: UInt64)] = []
    for name in ["program.pb", "manifest.json", "weights.bin"] {
      let part = try Data(contentsOf: URL(fileURLWithPath: "\(bundle)/\(name)"))
      content.append(Data(count: (16384 - content.count % 16384) % 16384))
      places.append((UInt64(content.count), UInt64(part.count)))
      content.append(part)
    }
    try content.write(to: URL(fileURLWithPath: path))
    let opened = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
    file = opened
    let parts = places.map {
      ModelBundle.Part(descriptor: opened.fileDescriptor, offset: $0.offset, length: $0.length)
    }
    (program, manifest, weights) = (parts[0], parts[1], parts[2])
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func open() throws -> ModelBundle { try ModelBundle(program: program, manifest: manifest, weights: weights) }
}

func scratchPath() -> String { NSTemporaryDirectory() + "mebp-" + UUID().uuidString }

/// What `MEBP_BUNDLE` names.
func bundleFolder() throws -> String {
  try XCTUnwrap(ProcessInfo.processInfo.environment["MEBP_BUNDLE"], "set MEBP_BUNDLE to a NAME.mebp")
}

func sleep(seconds: Double) async throws { try await Task.sleep(nanoseconds: UInt64(seconds * 1e9)) }

func assertRefused(
  _ code: MebpError.Code, _ part: String, line: UInt = #line, _ call: () throws -> Void
) {
  XCTAssertThrowsError(try call(), line: line) { error in
    guard let refusal = error as? MebpError else { return XCTFail("\(error)", line: line) }
    XCTAssertEqual(refusal.code, code, refusal.line, line: line)
    XCTAssertTrue(refusal.line.contains(part), "\(refusal.line) instead of \(part)", line: line)
    XCTAssertFalse(refusal.line.contains("\n"), line: line)
  }
}
