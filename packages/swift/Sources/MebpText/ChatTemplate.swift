// SPDX-License-Identifier: Apache-2.0
import CMebp
import Foundation
import Mebp

/// A turn of a conversation.
public struct Turn: Sendable, Equatable {
  /// "system", "user" or "assistant".
  public let role: String
  public let text: String
  /// Of the assistant's: whether it counts in the loss.
  public let isLearned: Bool

  public init(_ role: String, _ text: String, isLearned: Bool = true) {
    self.role = role
    self.text = text
    self.isLearned = isLearned
  }
}

/// The model's chat template, from chat.json, which `mebp export` writes where the template comes in pieces. A
/// conversation is the system's turn or none, then the user and the assistant in turns, all of text; any other is
/// refused, `.unsupported`. Any thread may use it.
public final class ChatTemplate: @unchecked Sendable {
  private let pointer: OpaquePointer

  /// Of a bundle, or of a folder that has chat.json; `.notFound` where there is none.
  public init(folder: String) throws {
    let path = try checkPath(folder)
    pointer = try opened { mebp_chat_open(path, $0, $1) }
  }

  /// Of chat.json alone.
  public init(json: Data) throws {
    pointer = try json.withUnsafeBytes { bytes in
      try opened { mebp_chat_open_bytes(bytes.baseAddress, bytes.count, $0, $1) }
    }
  }

  deinit { mebp_chat_close(pointer) }

  /// The ids of which the model writes one to end an answer, for `Generation.tokens`.
  public var ends: Set<Int32> {
    withExtendedLifetime(self) {
      var count: UInt32 = 0
      let ends = mebp_chat_ends(pointer, &count)
      return Set(UnsafeBufferPointer(start: ends, count: Int(count)))
    }
  }

  /// The text of a conversation; of a prompt, up to where the next answer begins.
  public func text(_ turns: [Turn], isPrompt: Bool = false) throws -> String {
    let bytes = try withC(turns) { turns, size in
      try filled(size + 256) { (text: UnsafeMutablePointer<CChar>, room, count) in
        try check { mebp_chat_text(pointer, turns, UInt32(turns.count), isPrompt, text, room, &count, $0) }
      }
    }
    return String(decoding: bytes.lazy.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// A whole conversation as a row for `Session.step`. What the assistant says in turns that are learned counts, with
  /// what ends them; with `everything`, all but what it says in turns that are not.
  public func encode(_ turns: [Turn], with tokenizer: Tokenizer, everything: Bool = false) throws -> Batch {
    try withC(turns) { turns, size in
      try tokenizer.use { tokenizer in
        var room = size + 256
        while true {
          var (ids, count) = ([Int32](repeating: 0, count: room), 0)
          var labels = ids
          let turnCount = UInt32(turns.count)
          try check {
            mebp_chat_encode(pointer, tokenizer, turns, turnCount, everything, &ids, &labels, room, &count, $0)
          }
          if count <= room { return try Batch(ids: Array(ids.prefix(count)), labels: Array(labels.prefix(count))) }
          room = count
        }
      }
    }
  }

  /// The ids up to where the next answer begins, for `Generation.tokens`. The last turn is the user's.
  public func prompt(_ turns: [Turn], with tokenizer: Tokenizer) throws -> [Int32] {
    try withC(turns) { turns, size in
      try tokenizer.use { tokenizer in
        try filled(size + 256) { ids, room, count in
          try check { mebp_chat_prompt(pointer, tokenizer, turns, UInt32(turns.count), ids, room, &count, $0) }
        }
      }
    }
  }

  /// Turns for C, and how many bytes their texts have. A zero in a text is refused there, by name.
  private func withC<Result>(_ turns: [Turn], _ body: ([mebp_data_turn], Int) throws -> Result) throws -> Result {
    var bytes: [CChar] = []
    var places: [(role: Int, text: Int, end: Int)] = []
    for turn in turns {
      let role = bytes.count
      bytes += try checkText("role", turn.role).utf8CString
      let text = bytes.count
      bytes += turn.text.utf8CString
      places.append((role, text, bytes.count - 1))
    }
    return try bytes.withUnsafeBufferPointer { bytes in
      let list = zip(turns, places).map { turn, place in
        mebp_data_turn(
          role: bytes.baseAddress! + place.role, text: bytes.baseAddress! + place.text, bytes: place.end - place.text,
          learned: turn.isLearned)
      }
      return try body(list, bytes.count)
    }
  }
}
