// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp
import MebpText

/// The app's model.mebp, exported with its tokenizer, and its chat.jsonl: conversations as `mebp train` takes them.
struct Conversations: Sendable {
  let bundle: ModelBundle
  let data: TextData
  private let tokenizer: Tokenizer
  private let template: ChatTemplate

  init() throws {
    guard let folder = Foundation.Bundle.main.path(forResource: "model", ofType: "mebp") else {
      throw MebpError(.notFound, "model.mebp is not in the app; add it as a folder")
    }
    guard let file = Foundation.Bundle.main.path(forResource: "chat", ofType: "jsonl") else {
      throw MebpError(.notFound, "chat.jsonl is not in the app; add it to its resources")
    }
    bundle = try ModelBundle(folder: folder)
    let info = try bundle.info
    data = try TextData(
      file, bundle: folder, length: info.maxSequence, rowsOfStep: info.maxBatch, folder: NSTemporaryDirectory())
    tokenizer = try Tokenizer(folder: folder)
    template = try ChatTemplate(folder: folder)
  }

  /// Steps of three epochs.
  var steps: UInt64 { 3 * data.stepsOfEpoch }

  /// The answer, as it comes, to a question.
  func answer(_ question: String, by session: Session) throws -> DecodedText<Generation.Tokens> {
    let prompt = try template.prompt([Turn("user", question)], with: tokenizer)
    return tokenizer.decode(try Generation(session).tokens(prompt, limit: 100, ends: template.ends))
  }
}
