// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp
import MebpText
import XCTest

/// Conversations as ids, labels and prompts, as Python has them.
final class ChatTemplateTests: XCTestCase {
  private var folder: String!
  private var tokenizer: Tokenizer!
  private var template: ChatTemplate!

  override func setUpWithError() throws {
    folder = try TextFiles.path("text.mebp")
    tokenizer = try Tokenizer(folder: folder)
    template = try ChatTemplate(folder: folder)
  }

  private func turns(_ column: String) -> [Turn] {
    column.split(separator: " ").map {
      let parts = $0.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
      return Turn(parts[0], TextFiles.text(parts[1]), isLearned: parts[2] == "1")
    }
  }

  func testIdsLabelsAndPromptsAreThoseOfPython() throws {
    let lines = try TextFiles.lines("chat.tsv")
    XCTAssertGreaterThanOrEqual(lines.count, 50)
    for line in lines {
      let turns = turns(line[0])
      let row = try template.encode(turns, with: tokenizer)
      XCTAssertEqual(row.ids, TextFiles.numbers(line[1]))
      XCTAssertEqual(row.labels, TextFiles.numbers(line[2]))
      let prompt = try template.prompt(Array(turns.dropLast()), with: tokenizer)
      XCTAssertEqual(prompt, TextFiles.numbers(line[3]))
      let asked = try template.text(Array(turns.dropLast()), isPrompt: true)
      XCTAssertEqual(try tokenizer.encode(asked, addSpecialTokens: false), prompt)
      XCTAssertEqual(try tokenizer.encode(template.text(turns), addSpecialTokens: false), row.ids)
    }
  }

  func testWhatCounts() throws {
    let turns = [Turn("user", "Who?"), Turn("assistant", "Me."), Turn("user", "Why?")]
    let asked = try template.encode(turns + [Turn("assistant", "So.", isLearned: false)], with: tokenizer)
    let learned = zip(asked.ids, asked.labels).filter { $1 != -100 }.map { $0.0 }
    XCTAssertEqual(try tokenizer.decode(learned, skipSpecialTokens: false), "Me.<|im_end|>")
    let all = try template.encode(turns + [Turn("assistant", "So.")], with: tokenizer, everything: true)
    XCTAssertEqual(all.labels, all.ids)
    let json = try Data(contentsOf: URL(fileURLWithPath: "\(folder!)/tokenizer/chat.json"))
    XCTAssertEqual(try ChatTemplate(json: json).text(turns), try template.text(turns))
    // More than there is room for at first: a turn of nothing has its marks.
    let many = (0..<400).map { Turn($0 % 2 == 0 ? "user" : "assistant", "") }
    let ids = try tokenizer.encode(template.text(many), addSpecialTokens: false)
    XCTAssertEqual(try template.encode(many, with: tokenizer).ids, ids)
  }

  func testAnAnswerComesAsTextAndEnds() async throws {
    let prompt = try template.prompt([Turn("user", "Who?")], with: tokenizer)
    let generation = try Generation(Session(ModelBundle(folder: folder)))
    XCTAssertTrue(template.ends.contains(try tokenizer.id("<|im_end|>")))
    let end = template.ends.min()!
    // A model that says each id from 60 on, and then that it ends.
    let choose: @Sendable ([Float]) -> Int32 = { _ in Int32(generation.positions - prompt.count + 60) }
    var shown = ""
    let answer = generation.tokens(prompt, limit: 20, ends: [79], choose: choose)
    for try await piece in tokenizer.decode(answer) { shown += piece }
    XCTAssertEqual(shown, try tokenizer.decode((60..<79).map(Int32.init)))
    try generation.rewind(0)
    let ended = generation.tokens(prompt, limit: 20, ends: template.ends) { _ in end }
    let nothing = try await tokenizer.decode(ended).reduce("", +)
    XCTAssertEqual(nothing, "")
  }

  func testRefusals() throws {
    let asked = Turn("user", "Who?")
    assertRefused(.unsupported, "tool") { _ = try template.text([asked, Turn("tool", "{}")]) }
    assertRefused(.unsupported, "tool") { _ = try template.encode([asked, Turn("tool", "{}")], with: tokenizer) }
    assertRefused(.unsupported, "tool") { _ = try template.prompt([asked, Turn("tool", "{}")], with: tokenizer) }
    XCTAssertThrowsError(try template.prompt([asked, Turn("assistant", "")], with: tokenizer))
    assertRefused(.invalidArgument, "the conversation has no turn of the user; give one") { _ = try template.text([]) }
    XCTAssertThrowsError(try template.text([Turn("user", "a\0b")])) { error in
      XCTAssertTrue((error as? MebpError)?.line.contains("has a NUL; leave it out") == true, "\(error)")
    }
    assertRefused(.invalidArgument, "the role 'user\\0' has a zero in it") {
      _ = try template.text([Turn("user\0", "a")])
    }
    let bundle = try bundleFolder()
    assertRefused(.notFound, "\(bundle): has no chat.json; mebp export writes it") {
      _ = try ChatTemplate(folder: bundle)
    }
    assertRefused(.corrupt, "chat.json") { _ = try ChatTemplate(json: Data("{".utf8)) }
  }
}
