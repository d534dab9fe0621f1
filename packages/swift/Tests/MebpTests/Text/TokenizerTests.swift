// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp
import MebpText
import XCTest

/// Text to ids and back, as the Python package `tokenizers` has it.
final class TokenizerTests: XCTestCase {
  private var tokenizer: Tokenizer!
  private var json: Data!

  override func setUpWithError() throws {
    json = try Data(contentsOf: URL(fileURLWithPath: TextFiles.path("tokenizer.json")))
    tokenizer = try Tokenizer(json: json)
  }

  private struct Line: Sendable {
    let text: String
    let ids: [Int32]
    let decoded: String
  }

  private func strings() throws -> [Line] {
    try TextFiles.lines("strings.tsv").map {
      Line(text: TextFiles.text($0[0]), ids: TextFiles.numbers($0[1]), decoded: TextFiles.text($0[2]))
    }
  }

  func testIdsAndTextsAreThoseOfPython() async throws {
    let strings = try strings()
    XCTAssertGreaterThanOrEqual(strings.count, 5000)
    for line in strings {
      XCTAssertEqual(try tokenizer.encode(line.text), line.ids, line.text.debugDescription)
      assertSame(try tokenizer.decode(line.ids), line.decoded)
      let shown = try await pieces(line.ids, by: tokenizer)
      assertSame(shown.joined(), line.decoded)
      XCTAssertFalse(shown.contains(""))
    }
  }

  func testAMegabyteIsItsStringsWithTheMarksBetweenThem() throws {
    let lines = try strings()
    let repeated = lines + lines
    let text = repeated.map(\.text).joined(separator: "<|im_start|>")
    XCTAssertGreaterThan(text.utf8.count, 1_000_000)
    let between = try tokenizer.id("<|im_start|>")
    let expected = Array(repeated.flatMap { [between] + $0.ids }.dropFirst())
    XCTAssertTrue(try tokenizer.encode(text) == expected, "the ids of a megabyte")
    assertSame(try tokenizer.decode(expected), repeated.map(\.decoded).joined())
  }

  func testAPieceNeverCutsACharacter() async throws {
    let family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467} \u{1F1E9}\u{1F1EA}"
    let ids = try tokenizer.encode(family)
    let whole = try await pieces(ids, by: tokenizer)
    XCTAssertLessThan(whole.count, ids.count, "each id is of whole characters, and nothing was held back")
    XCTAssertFalse(whole.joined().unicodeScalars.contains("\u{FFFD}"))
    assertSame(whole.joined(), family)
    let cut = try await pieces(Array(ids.dropLast()), by: tokenizer)
    assertSame(cut.joined(), try tokenizer.decode(Array(ids.dropLast())))
    XCTAssertEqual(cut.last?.unicodeScalars.last, "\u{FFFD}")
  }

  func testAFolderAPartOfAFileAndDataAreTheSame() throws {
    let path = scratchPath()
    defer { try? FileManager.default.removeItem(atPath: path) }
    try (Data("what comes first".utf8) + json + Data("and last".utf8)).write(to: URL(fileURLWithPath: path))
    let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
    let part = ModelBundle.Part(descriptor: file.fileDescriptor, offset: 16, length: UInt64(json.count))
    let folder = (try TextFiles.path("tokenizer.json") as NSString).deletingLastPathComponent
    for other in [try Tokenizer(folder: folder), try Tokenizer(part)] {
      for line in try strings().prefix(100) { XCTAssertEqual(try other.encode(line.text), line.ids) }
      XCTAssertEqual(other.vocabulary, tokenizer.vocabulary)
    }
    XCTAssertEqual(tokenizer.vocabulary, 49152)
  }

  func testSpecialTokens() throws {
    let start = try tokenizer.id("<|im_start|>")
    let text = "<|im_start|>user"
    let ids = try tokenizer.encode(text)
    XCTAssertEqual(ids.first, start)
    XCTAssertEqual(try tokenizer.decode(ids), "user")
    XCTAssertEqual(try tokenizer.decode(ids, skipSpecialTokens: false), text)
    XCTAssertEqual(try tokenizer.encode(""), [])
    XCTAssertEqual(try tokenizer.decode([]), "")
    // More text than there is room for at first.
    let long = try tokenizer.encode(String(repeating: " ", count: 2000))
    XCTAssertEqual(try tokenizer.decode(long), String(repeating: " ", count: 2000))
  }

  func testThreadsMayShareIt() async throws {
    let (strings, tokenizer) = (try strings().prefix(200), tokenizer!)
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for _ in 0..<4 {
        group.addTask {
          for line in strings {
            let shown = try await pieces(line.ids, by: tokenizer).joined()
            guard try tokenizer.encode(line.text) == line.ids, shown == line.decoded else { return false }
          }
          return true
        }
      }
      for try await isEqual in group { XCTAssertTrue(isEqual) }
    }
  }

  func testRefusals() async throws {
    assertRefused(.invalidArgument, "the text has NUL at byte 1; leave it out") { _ = try tokenizer.encode("a\0b") }
    assertRefused(.invalidArgument, "the token 'a\\0' has a zero in it") { _ = try tokenizer.id("a\0") }
    assertRefused(.notFound, "no-such-token") { _ = try tokenizer.id("no-such-token") }
    let bundle = try bundleFolder()
    assertRefused(.notFound, "\(bundle)/tokenizer: has no tokenizer.json; export the model") {
      _ = try Tokenizer(folder: bundle)
    }
    assertRefused(.notFound, "nowhere") { _ = try Tokenizer(folder: "/nowhere") }
    assertRefused(.invalidArgument, "the path 'a\\0' has a zero in it") { _ = try Tokenizer(folder: "a\0") }
    assertRefused(.corrupt, "tokenizer.json") { _ = try Tokenizer(json: Data("{".utf8)) }
    XCTAssertThrowsError(try Tokenizer(json: Data())) { XCTAssertTrue($0 is MebpError, "\($0)") }
    let whole = String(decoding: json, as: UTF8.self)
    let other = whole.replacingOccurrences(of: "\"ByteLevel\"", with: "\"Runes\"")
    assertRefused(.unsupported, "Runes") { _ = try Tokenizer(json: Data(other.utf8)) }
  }
}

private func pieces(_ ids: [Int32], by tokenizer: Tokenizer) async throws -> [String] {
  let coming = AsyncStream<Int32> { stream in
    ids.forEach { stream.yield($0) }
    stream.finish()
  }
  return try await tokenizer.decode(coming).reduce(into: []) { $0.append($1) }
}
