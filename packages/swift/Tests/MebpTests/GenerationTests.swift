// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp
import XCTest

/// Text, a token each time that one is asked for.
final class GenerationTests: XCTestCase {
  private var generation: Generation!
  private let prompt = (0..<9).map { Int32(7 * $0 + 3) }

  override func setUpWithError() throws { generation = try Generation(Session(ModelBundle(folder: bundleFolder()))) }

  /// The likeliest tokens, by `append` alone.
  private func appended(_ count: Int) throws -> [Int32] {
    let other = try Generation(generation.session)
    var next = prompt
    return try (0..<count).map { _ in
      let token = likeliest(try other.append(next))
      next = [token]
      return token
    }
  }

  private func taken(_ tokens: Generation.Tokens) async throws -> [Int32] {
    try await tokens.reduce(into: []) { $0.append($1) }
  }

  func testTheLikeliestTokensUpToALimitOrAnEnd() async throws {
    let expected = try appended(20)
    let all = try await taken(generation.tokens(prompt, limit: 20))
    XCTAssertEqual(all, expected)
    XCTAssertEqual(generation.positions, prompt.count + 19)
    XCTAssertEqual(try generation.rewind(0), 0)
    let end = expected[12]
    let some = try await taken(generation.tokens(prompt, limit: 20, ends: [end]))
    XCTAssertEqual(some, Array(expected.prefix { $0 != end }))
    XCTAssertEqual(likeliest([0, 2, 2]), 1)
  }

  func testCancellingEndsATextAndTheSessionIsFreeBehindIt() async throws {
    let (generation, prompt) = (generation!, prompt)
    for attempt in 0..<5 {
      let run = Task {
        while true {
          try generation.rewind(0)
          for try await _ in generation.tokens(prompt, limit: 40) {}
        }
      }
      try await sleep(seconds: 0.02 * Double(attempt))
      run.cancel()
      let end = await run.result
      XCTAssertThrowsError(try end.get()) { XCTAssertTrue($0 is CancellationError, "\($0)") }
      try generation.session.step(Batch(ids: prompt))
    }
    XCTAssertEqual(generation.session.steps, 5)
  }

  func testRefusesWhatIsEmptyOrBelowZero() {
    assertRefused(.invalidArgument, "token") { _ = try generation.append([]) }
    assertRefused(.outOfRange, "vocabulary") { _ = try generation.append([-1]) }
    assertRefused(.invalidArgument, "a text cannot be cut to -1 tokens; give 0 or more") { try generation.rewind(-1) }
  }
}
