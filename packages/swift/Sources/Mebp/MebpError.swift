// SPDX-License-Identifier: Apache-2.0
import CMebp
import Foundation

/// What went wrong, by its code and in one line that says what to do.
public struct MebpError: Error, LocalizedError, Equatable, CustomStringConvertible {
  /// What mebp.h calls mebp_code; a newer library may have codes that this has no name for.
  public struct Code: RawRepresentable, Equatable, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    public static let invalidArgument = Code(rawValue: 1)
    public static let notFound = Code(rawValue: 2)
    public static let corrupt = Code(rawValue: 3)
    public static let incompatible = Code(rawValue: 4)
    public static let outOfRange = Code(rawValue: 5)
    public static let outOfMemory = Code(rawValue: 6)
    public static let io = Code(rawValue: 7)
    public static let unsupported = Code(rawValue: 8)
    public static let notFinite = Code(rawValue: 9)
    public static let busy = Code(rawValue: 10)
    public static let poisoned = Code(rawValue: 11)
    public static let cancelled = Code(rawValue: 12)
    public static let paused = Code(rawValue: 13)
    public static let disconnected = Code(rawValue: 14)
    public static let refused = Code(rawValue: 15)
  }

  public let code: Code
  public let line: String

  public init(_ code: Code, _ line: String) {
    self.code = code
    self.line = line
  }

  public var description: String { line }
  public var errorDescription: String? { line }
}

/// Runs a function of mebp.h, and throws what it says.
package func check(_ call: (UnsafeMutablePointer<mebp_error>) -> mebp_code) throws {
  var error = mebp_error()
  let code = call(&error)
  if code == MEBP_OK { return }
  let line = withUnsafeBytes(of: error.message) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  throw MebpError(.init(rawValue: UInt32(code.rawValue)), line)
}

/// Text for C, which would end it at a zero.
package func checkText(_ what: String, _ text: String) throws -> String {
  guard text.utf8.contains(0) else { return text }
  let shown = text.replacingOccurrences(of: "\0", with: "\\0")
  throw MebpError(.invalidArgument, "the \(what) '\(shown)' has a zero in it")
}

package func checkPath(_ path: String) throws -> String { try checkText("path", path) }
