// SPDX-License-Identifier: Apache-2.0
import CMebp
import Foundation

/// One text, token after token, by a bundle that was compiled with --generate-len, and the adapter of its session. It
/// has memory of its own, and one thread uses it and its session at a time. What changes the adapter does not change
/// the text that is there: `rewind` to 0 behind a step.
public final class Generation: @unchecked Sendable {
  public let session: Session  // outlives it
  private let pointer: OpaquePointer
  private let vocabulary: Int

  public init(_ session: Session) throws {
    self.session = session
    vocabulary = try session.bundle.info.vocabulary
    var made: OpaquePointer?
    try check { mebp_generation_create(session.pointer, &made, $0) }
    pointer = made!
  }

  deinit { mebp_generation_destroy(pointer) }

  /// Tokens so far.
  public var positions: Int { Int(mebp_generation_positions(pointer)) }

  /// Extends the text, and returns a number for each word of the vocabulary: the logits of the token behind it.
  public func append(_ ids: [Int32]) throws -> [Float] {
    var logits = [Float](repeating: 0, count: vocabulary)
    try check { mebp_generation_append(pointer, ids, 1, UInt32(ids.count), &logits, $0) }
    return logits
  }

  /// Forgets all but the first `positions` tokens. Returns how many remain: fewer, where a layer lost what it needs.
  @discardableResult
  public func rewind(_ positions: Int) throws -> Int {
    guard let count = UInt32(exactly: positions) else {
      throw MebpError(.invalidArgument, "a text cannot be cut to \(positions) tokens; give 0 or more")
    }
    var kept: UInt32 = 0
    try check { mebp_generation_rewind(pointer, count, &kept, $0) }
    return Int(kept)
  }

  /// The tokens behind `prompt`, one each time that the next one is asked for: up to `limit` of them, and none from the
  /// first of `ends` on. `choose` makes a token of logits; the likeliest where it is not given. Cancelling the task
  /// ends the pass that runs at its next kernel, and throws CancellationError; `positions` says what is there.
  public func tokens(
    _ prompt: [Int32], limit: Int, ends: Set<Int32> = [],
    choose: @escaping @Sendable ([Float]) -> Int32 = likeliest
  ) -> Tokens {
    Tokens(generation: self, prompt: prompt, limit: limit, ends: ends, choose: choose)
  }

  public struct Tokens: AsyncSequence, Sendable {
    public typealias Element = Int32
    let generation: Generation
    let prompt: [Int32]
    let limit: Int
    let ends: Set<Int32>
    let choose: @Sendable ([Float]) -> Int32

    public struct AsyncIterator: AsyncIteratorProtocol {
      let tokens: Tokens
      var ids: [Int32]
      var left: Int

      public mutating func next() async throws -> Int32? {
        guard left > 0 else { return nil }
        left -= 1
        let session = tokens.generation.session
        defer { session.clearCancel() }  // what came too late shall end nobody else's call
        session.clearCancel()
        try Task.checkCancellation()
        do {
          let logits = try await withTaskCancellationHandler { [tokens, ids] in
            try await session.run { _ in try tokens.generation.append(ids) }
          } onCancel: {
            session.cancel()
          }
          let token = tokens.choose(logits)
          if tokens.ends.contains(token) { left = 0 }
          ids = [token]
          return tokens.ends.contains(token) ? nil : token
        } catch let error as MebpError where error.code == .cancelled {
          throw CancellationError()
        }
      }
    }

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(tokens: self, ids: prompt, left: limit) }
  }
}

/// The first of the largest.
@Sendable public func likeliest(_ logits: [Float]) -> Int32 {
  Int32(logits.indices.reduce(0) { logits[$1] > logits[$0] ? $1 : $0 })
}
