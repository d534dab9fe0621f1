// SPDX-License-Identifier: Apache-2.0
import CMebp
import Foundation
import Mebp

/// The model's tokenizer: the ids of the Python package `tokenizers`. A file with anything that it does not know is
/// refused by name. Any thread may use it; calls wait for one another.
public final class Tokenizer: @unchecked Sendable {
  private let pointer: OpaquePointer
  private let lock = NSLock()

  /// Of a bundle, or of a folder that has tokenizer.json. Throws `.notFound` where there is none, `.unsupported` where
  /// it cannot be read exactly.
  public init(folder: String) throws {
    let path = try checkPath(folder)
    pointer = try opened { mebp_tokenizer_open(path, $0, $1) }
  }

  /// Of tokenizer.json alone.
  public init(json: Data) throws {
    pointer = try json.withUnsafeBytes { bytes in
      try opened { mebp_tokenizer_open_bytes(bytes.baseAddress, bytes.count, $0, $1) }
    }
  }

  /// Of tokenizer.json alone, a part of an open file. The descriptor may be closed afterwards.
  public init(_ json: ModelBundle.Part) throws {
    pointer = try opened { mebp_tokenizer_open_file(json.descriptor, json.offset, json.length, $0, $1) }
  }

  deinit { mebp_tokenizer_close(pointer) }

  /// One more than the largest id.
  public var vocabulary: Int { Int(mebp_tokenizer_vocabulary(pointer)) }

  /// The id of a token as tokenizer.json writes it; `.notFound` where it has none.
  public func id(_ token: String) throws -> Int32 {
    let token = try checkText("token", token)
    var id: Int32 = 0
    try check { mebp_tokenizer_id(pointer, token, &id, $0) }
    return id
  }

  /// The ids of a text without a zero in it. `addSpecialTokens` adds what the model wants around a text, such as <bos>;
  /// names of special tokens in the text become those tokens in any case.
  public func encode(_ text: String, addSpecialTokens: Bool = true) throws -> [Int32] {
    try text.withCString { bytes in
      try use { pointer in
        let size = text.utf8.count
        return try filled(size + 8) { ids, room, count in
          try check { mebp_tokenizer_encode(pointer, bytes, size, addSpecialTokens, ids, room, &count, $0) }
        }
      }
    }
  }

  /// The text of ids. Bytes that are not UTF-8 become U+FFFD.
  public func decode(_ ids: [Int32], skipSpecialTokens: Bool = true) throws -> String {
    let bytes = try use { pointer in
      try filled(8 * ids.count + 8) { (text: UnsafeMutablePointer<CChar>, room, count) in
        try check { mebp_tokenizer_decode(pointer, ids, ids.count, skipSpecialTokens, text, room, &count, $0) }
      }
    }
    return String(decoding: bytes.lazy.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// Runs `body` alone.
  func use<Result>(_ body: (OpaquePointer) throws -> Result) rethrows -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(pointer)
  }
}

/// What a function of C opens.
func opened(
  _ open: (UnsafeMutablePointer<OpaquePointer?>, UnsafeMutablePointer<mebp_error>) -> mebp_code
) throws -> OpaquePointer {
  var pointer: OpaquePointer?
  try check { open(&pointer, $0) }
  return pointer!
}

/// What a function of C writes, which is asked again where it has more than there is room for.
func filled<Element: Numeric>(
  _ room: Int, _ write: (UnsafeMutablePointer<Element>, Int, inout Int) throws -> Void
) throws -> [Element] {
  var written = [Element](repeating: 0, count: room)
  var count = 0
  try written.withUnsafeMutableBufferPointer { try write($0.baseAddress!, room, &count) }
  if count > room { return try filled(count, write) }
  written.removeLast(room - count)
  return written
}
