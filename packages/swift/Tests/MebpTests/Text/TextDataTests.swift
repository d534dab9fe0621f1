// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp
import MebpText
import XCTest

/// JSON lines as batches: the run is that of `mebp train`.
final class TextDataTests: XCTestCase {
  private var folder: String!
  private var scratch: String!
  private var options = SessionOptions()

  override func setUpWithError() throws {
    folder = try TextFiles.path("text.mebp")
    options.clip = 1
    scratch = scratchPath()
    try FileManager.default.createDirectory(atPath: scratch, withIntermediateDirectories: true)
  }

  override func tearDown() { try? FileManager.default.removeItem(atPath: scratch) }

  /// As make_text.py trains.
  private func open(
    length: Int = 64, rowsOfStep: Int = 2, lossOn: TextData.LossOn = .assistant, seed: UInt64 = 5
  ) throws -> TextData {
    try TextData(
      TextFiles.path("chat.jsonl"), bundle: folder, length: length, rowsOfStep: rowsOfStep, lossOn: lossOn, seed: seed)
  }

  private func expected() throws -> [Double] { try TextFiles.lines("losses.tsv").map { Double($0[0])! } }

  func testLossesAreThoseOfMebpTrain() async throws {
    let (data, expected) = (try open(), try expected())
    let session = try Session(ModelBundle(folder: folder), options)
    var losses: [Double] = []
    let steps = session.steps..<UInt64(expected.count)
    for try await result in session.training(try steps.map(data.batch)) { losses.append(result.loss) }
    XCTAssertEqual(losses, expected)
    XCTAssertEqual(losses.count, 12)
  }

  func testARunInPiecesIsTheSameAndNamesItsData() async throws {
    let (expected, bundle) = (try expected(), try ModelBundle(folder: folder))
    var losses: [Double] = []
    func piece(_ data: TextData, upTo limit: Int) async throws -> String? {
      let run = try BackgroundRun(
        bundle, options, folder: scratch, data: data.digest, steps: UInt64(expected.count)
      ) { try data.batch($0) }
      let allows = DeviceState(isCharging: true, isIdle: true, isHot: false, freeBytes: .max)
      return try await run.train(device: {
        var device = allows
        device.isCharging = losses.count < limit
        return device
      }) { _, result in losses.append(result.loss) }
    }
    let first = try await piece(open(), upTo: 5)
    XCTAssertEqual(first, "the device does not charge")
    for other in [try open(seed: 6), try open(rowsOfStep: 1), try open(length: 32)] {
      do {
        _ = try await piece(other, upTo: 99)
        XCTFail("other data were taken: \(other.digest)")
      } catch let error as MebpError {
        XCTAssertTrue(error.line.contains("and this one has '\(other.digest)'"), error.line)
      }
    }
    let last = try await piece(open(), upTo: 99)
    XCTAssertNil(last)
    XCTAssertEqual(losses, expected)
  }

  func testEachEpochHasEachRowAndNotesSayWhatIsCut() throws {
    let data = try open(rowsOfStep: 7)
    let lines = try TextFiles.lines("chat.jsonl").count
    XCTAssertEqual(data.rows, UInt64(lines))
    XCTAssertEqual(data.stepsOfEpoch, UInt64((lines + 6) / 7))
    func counted(_ batches: [Batch]) -> Int { batches.reduce(0) { $0 + $1.labels.filter { $0 != -100 }.count } }
    func whole(_ lossOn: TextData.LossOn) throws -> Int {
      counted([try open(rowsOfStep: lines, lossOn: lossOn).batch(0)])
    }
    let assistant = try whole(.assistant)
    for epoch in 0..<UInt64(2) {
      let steps = epoch * data.stepsOfEpoch..<(epoch + 1) * data.stepsOfEpoch
      XCTAssertEqual(counted(try steps.map(data.batch)), assistant)
    }
    XCTAssertLessThan(try whole(.last), assistant)
    XCTAssertGreaterThan(try whole(.all), assistant)
    XCTAssertEqual(try open(length: 4096).notes, [])
    XCTAssertFalse(try open(length: 48).notes.isEmpty)
  }

  private func refused(_ code: MebpError.Code, _ part: String, of text: String, line: UInt = #line) throws {
    let file = "\(scratch!)/bad.jsonl"
    try text.write(toFile: file, atomically: true, encoding: .utf8)
    assertRefused(code, "\(file):\(part)", line: line) {
      _ = try TextData(file, bundle: folder, length: 64, rowsOfStep: 1)
    }
  }

  func testRefusals() throws {
    let good = "{\"text\": \"The lamp is lit.\"}\n"
    let other = good + "{\"text\": \"a\", \"accept\": 1}\n"
    try refused(.invalidArgument, "2: has \"accept\", which is not read without Python", of: other)
    let turns = "{\"role\": \"user\", \"content\": \"1\"}, {\"role\": \"tool\", \"content\": \"2\"}"
    let called = "{\"messages\": [\(turns), {\"role\": \"assistant\", \"content\": \"3\"}]}\n"
    try refused(.unsupported, "1: turn 1 has the role \"tool\"; chat.json has system, user and assistant", of: called)
    let zero = "{\"text\": \"a\\u0000b\"}\n"
    try refused(.invalidArgument, "1: \"text\" has the character U+0000, as no text has; leave it out", of: zero)
    let (file, bundle) = (try TextFiles.path("chat.jsonl"), try bundleFolder())
    assertRefused(.notFound, "\(bundle)") { _ = try TextData(file, bundle: bundle, length: 64, rowsOfStep: 1) }
    assertRefused(.notFound, "/nowhere.jsonl") {
      _ = try TextData("/nowhere.jsonl", bundle: folder, length: 64, rowsOfStep: 1)
    }
    assertRefused(.invalidArgument, "the path 'a\\0' has a zero in it") {
      _ = try TextData("a\0", bundle: folder, length: 64, rowsOfStep: 1)
    }
    assertRefused(.invalidArgument, "length is 1; give the tokens of a row, at least 2") { _ = try open(length: 1) }
    assertRefused(.invalidArgument, "a step of 0 rows of up to 64 tokens is none; give numbers from 1 on") {
      _ = try open(rowsOfStep: 0)
    }
    assertRefused(.invalidArgument, "a step of 1 rows of up to -1 tokens is none") {
      _ = try open(length: -1, rowsOfStep: 1)
    }
    let text = "\(scratch!)/text.jsonl"
    try good.write(toFile: text, atomically: true, encoding: .utf8)
    let pieceless = "\(scratch!)/pieceless"
    try FileManager.default.copyItem(atPath: folder, toPath: pieceless)
    try FileManager.default.removeItem(atPath: "\(pieceless)/tokenizer/chat.json")
    let pieces = ":1: has \"messages\", and there is no chat template for them"
    assertRefused(.unsupported, pieces) { _ = try TextData(file, bundle: pieceless, length: 64, rowsOfStep: 1) }
    XCTAssertEqual(try TextData(text, bundle: pieceless, length: 8, rowsOfStep: 1).rows, 2)
  }
}
