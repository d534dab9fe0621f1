// SPDX-License-Identifier: Apache-2.0
import CMebp
import Mebp

/// Text as ids come, in pieces that end with a whole character; together they are what `decode` gives of all ids.
///
///     for try await piece in tokenizer.decode(generation.tokens(prompt, limit: 100)) { show(piece) }
public struct DecodedText<IDs: AsyncSequence>: AsyncSequence where IDs.Element == Int32 {
  public typealias Element = String
  let tokenizer: Tokenizer
  let ids: IDs
  let skipSpecialTokens: Bool

  public struct AsyncIterator: AsyncIteratorProtocol {
    let tokenizer: Tokenizer
    let skipSpecialTokens: Bool
    var ids: IDs.AsyncIterator
    var stream: TokenizerStream?
    var isFinished = false

    public mutating func next() async throws -> String? {
      while !isFinished {
        let stream = try self.stream ?? TokenizerStream(tokenizer, skipSpecialTokens: skipSpecialTokens)
        self.stream = stream
        let id = try await ids.next()
        isFinished = id == nil
        let piece = try id.map(stream.push) ?? stream.finish()
        if !piece.isEmpty { return piece }
      }
      return nil
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(tokenizer: tokenizer, skipSpecialTokens: skipSpecialTokens, ids: ids.makeAsyncIterator())
  }
}

extension Tokenizer {
  /// The text of ids that are still to come, such as those of `Generation.tokens`; it ends, and throws, as they do.
  /// `.unsupported` where the tokenizer is an encoder's, WordPiece.
  public func decode<IDs: AsyncSequence>(_ ids: IDs, skipSpecialTokens: Bool = true) -> DecodedText<IDs>
  where IDs.Element == Int32 {
    DecodedText(tokenizer: self, ids: ids, skipSpecialTokens: skipSpecialTokens)
  }
}

/// Holds back the beginning of a character until its end comes.
final class TokenizerStream {
  private let tokenizer: Tokenizer  // outlives it
  private let pointer: OpaquePointer

  init(_ tokenizer: Tokenizer, skipSpecialTokens: Bool) throws {
    self.tokenizer = tokenizer
    pointer = try tokenizer.use { tokenizer in
      try opened { mebp_tokenizer_stream_create(tokenizer, skipSpecialTokens, $0, $1) }
    }
  }

  deinit { mebp_tokenizer_stream_free(pointer) }

  func push(_ id: Int32) throws -> String { try text { mebp_tokenizer_stream_push(pointer, id, $0, $1, $2) } }

  func finish() throws -> String { try text { mebp_tokenizer_stream_finish(pointer, $0, $1, $2) } }

  private typealias Written = UnsafeMutablePointer<UnsafePointer<CChar>?>

  private func text(
    _ call: (Written, UnsafeMutablePointer<Int>, UnsafeMutablePointer<mebp_error>) -> mebp_code
  ) throws -> String {
    try tokenizer.use { _ in
      var (text, count): (UnsafePointer<CChar>?, Int) = (nil, 0)
      try check { call(&text, &count, $0) }
      let bytes = UnsafeRawBufferPointer(start: text, count: count)
      return String(decoding: bytes, as: UTF8.self)
    }
  }
}
