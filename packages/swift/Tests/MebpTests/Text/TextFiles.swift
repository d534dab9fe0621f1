// SPDX-License-Identifier: Apache-2.0
import Foundation
import XCTest

/// What test/packages/make_text.py has made, and says: `MEBP_TEXT` names its folder.
enum TextFiles {
  static func path(_ name: String) throws -> String {
    let folder = try XCTUnwrap(
      ProcessInfo.processInfo.environment["MEBP_TEXT"], "set MEBP_TEXT to the folder of test/packages/make_text.py")
    return "\(folder)/\(name)"
  }

  /// The columns of each line.
  static func lines(_ name: String) throws -> [[String]] {
    let text = try String(contentsOfFile: path(name), encoding: .utf8)
    return text.split(separator: "\n").map {
      $0.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
    }
  }

  static func numbers(_ column: String) -> [Int32] { column.split(separator: " ").map { Int32($0)! } }

  static func text(_ hexadecimal: String) -> String {
    let digits = hexadecimal.utf8.map { UInt8($0 < 58 ? $0 - 48 : $0 - 87) }
    let bytes = stride(from: 0, to: digits.count, by: 2).map { 16 * digits[$0] + digits[$0 + 1] }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// The same characters, not others that mean them.
func assertSame(_ found: String, _ expected: String, line: UInt = #line) {
  XCTAssertEqual(Array(found.unicodeScalars), Array(expected.unicodeScalars), line: line)
}
