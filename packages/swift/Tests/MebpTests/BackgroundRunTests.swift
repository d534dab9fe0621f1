// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp
import XCTest

/// A run in pieces: stopped by conditions, and killed.
final class BackgroundRunTests: XCTestCase {
  private static let steps: UInt64 = 12
  private var bundle: ModelBundle!
  private let folder = scratchPath()
  private let allows = DeviceState(isCharging: true, isIdle: true, isHot: false, freeBytes: .max)

  override func setUpWithError() throws {
    bundle = try ModelBundle(folder: bundleFolder())
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  }

  override func tearDown() { try? FileManager.default.removeItem(atPath: folder) }

  private var options: SessionOptions {
    var options = SessionOptions()
    options.clip = 1
    return options
  }

  /// The batches of BackgroundTrainer.
  private func batches() throws -> @Sendable (UInt64) throws -> Batch {
    let info = try bundle.info
    let (vocabulary, columns) = (info.vocabulary, info.maxSequence)
    return { step in try Batch(ids: (0..<columns).map { Int32(($0 * 7919 + Int(step) * 104729) % vocabulary) }) }
  }

  private func makeRun(_ conditions: Conditions = .init(), data: String = "numbers") throws -> BackgroundRun {
    try BackgroundRun(
      bundle, options, folder: folder, data: data, steps: Self.steps, conditions: conditions, saveEvery: 2,
      batch: batches())
  }

  private func adapter(_ path: String) throws -> Data {
    try Data(contentsOf: URL(fileURLWithPath: path + "/adapter_model.safetensors"))
  }

  /// The losses and the adapter of a run in one piece, without this type.
  private func whole() throws -> (losses: [Double], adapter: Data) {
    let session = try Session(bundle, options)
    let batch = try batches()
    let losses = try (0..<Self.steps).map { try session.step(batch($0)).loss }
    try session.saveAdapter("\(folder)/whole")
    return (losses, try adapter("\(folder)/whole"))
  }

  func testKilledAtFivePlacesARunEndsWithTheBitsOfOneInOnePiece() throws {
    let expected = try whole()
    var losses: [UInt64: Double] = [:]
    var (kills, again, isFinished) = (0, 0, false)
    #if os(macOS)
      let products = Bundle(for: Self.self).bundleURL.deletingLastPathComponent()
    #else
      let products = Bundle.main.bundleURL
    #endif
    while !isFinished {
      let process = Process()
      let output = Pipe()
      process.executableURL = products.appendingPathComponent("BackgroundTrainer")
      process.arguments = [try bundleFolder(), folder, "\(Self.steps)"]
      process.standardOutput = output
      try process.run()
      var text = Data()
      var seen = 0
      while true {
        let part = output.fileHandleForReading.availableData
        if part.isEmpty { break }
        text.append(part)
        while let end = text.firstIndex(of: 10) {
          let line = String(decoding: text[text.startIndex..<end], as: UTF8.self)
          text = Data(text[text.index(after: end)...])
          guard line != "finished" else {
            isFinished = true
            continue
          }
          let numbers = line.split(separator: " ").map { UInt64($0)! }
          if losses.updateValue(Double(bitPattern: numbers[1]), forKey: numbers[0]) != nil { again += 1 }
          seen += 1
          // After its third step, or its second: a save is behind the one or the other.
          if seen == 3 - kills % 2 && kills < 5 {
            kill(process.processIdentifier, SIGKILL)
            kills += 1
          }
        }
      }
      process.waitUntilExit()
      XCTAssertEqual(process.terminationReason == .uncaughtSignal, !isFinished)
    }
    XCTAssertEqual(kills, 5)
    XCTAssertGreaterThan(again, 0, "no step was made again")
    XCTAssertEqual((1...Self.steps).map { losses[$0] }, expected.losses)
    XCTAssertEqual(try adapter("\(folder)/adapter"), expected.adapter)
  }

  func testStopsWhereAConditionFailsAndGoesOnWhereNoneDoes() async throws {
    let expected = try whole()
    var losses: [Double] = []
    var device = allows
    func piece(_ conditions: Conditions = .init()) async throws -> String? {
      try await makeRun(conditions).train(device: { device }) { step, result in
        losses.append(result.loss)
        if step == 3 { device.isCharging = false }
      }
    }
    let unplugged = try await piece()
    XCTAssertEqual(unplugged, "the device does not charge")
    XCTAssertEqual(try Session.stepsOfState("\(folder)/state"), 3)
    device = allows
    device.isHot = true
    let hot = try await piece()
    XCTAssertEqual(hot, "the device is hot")
    device = allows
    device.freeBytes = 1_000_000
    let full = try await piece()
    XCTAssertEqual(full, "the device has 1 MB free, of 256 MB that are asked for")
    device = allows
    device.isIdle = false
    var idle = Conditions()
    idle.idle = true
    let used = try await piece(idle)
    XCTAssertEqual(used, "the device is in use")
    XCTAssertEqual(losses.count, 3)
    let end = try await piece()
    XCTAssertNil(end)
    XCTAssertEqual(losses, expected.losses)
    XCTAssertEqual(try adapter("\(folder)/adapter"), expected.adapter)
  }

  func testACancelledPieceSavesAndOtherDataAreRefused() async throws {
    let (run, allows) = (try makeRun(), allows)
    let piece = Task {
      try await run.train(device: { allows }) { step, _ in if step == 3 { withUnsafeCurrentTask { $0?.cancel() } } }
    }
    let ended = await piece.result
    XCTAssertThrowsError(try ended.get()) { XCTAssertTrue($0 is CancellationError, "\($0)") }
    XCTAssertEqual(try Session.stepsOfState("\(folder)/state"), 3)
    do {
      _ = try await makeRun(data: "others").train(device: { allows })
      XCTFail("other data were taken")
    } catch let error as MebpError {
      let what = "\(folder)/state: is of a run on the data 'numbers', and this one has 'others'"
      XCTAssertEqual(error.line, "\(what); remove the folder, or give that data")
    }
  }
}
