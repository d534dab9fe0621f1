// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp
import XCTest

/// What a training run in a task is, from an archive.
final class TrainingTests: XCTestCase {
  private var bundle: ModelBundle!
  private let folder = scratchPath()
  private var options = SessionOptions()

  override func setUpWithError() throws {
    bundle = try Archive(bundleFolder()).open()  // which closes the file and removes it
    options.clip = 1  // so that a step can be left up to its end
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  }

  override func tearDown() { try? FileManager.default.removeItem(atPath: folder) }

  private func batches(_ steps: Range<Int>) throws -> [Batch] {
    let info = try bundle.info
    return try steps.map { step in
      let ids = (0..<info.maxBatch * info.maxSequence).map { Int32(($0 * 7919 + step * 104729) % info.vocabulary) }
      return try Batch(ids: ids, rows: info.maxBatch)
    }
  }

  private func adapter(of session: Session) throws -> Data {
    try session.saveAdapter("\(folder)/adapter")
    return try Data(contentsOf: URL(fileURLWithPath: "\(folder)/adapter/adapter_model.safetensors"))
  }

  /// The results and the adapter of an undisturbed run.
  private func train(_ steps: Int) throws -> (results: [StepResult], adapter: Data) {
    let session = try Session(bundle, options)
    return (try batches(0..<steps).map { try session.step($0) }, try adapter(of: session))
  }

  /// Seconds after which a step still runs, also where others had this machine while those before it ran.
  private func withinAStep(_ before: [StepResult]) -> Double { before.map(\.seconds).min()! * 0.15 }

  func testCancelsTheSixthStepAndContinuesBitwise() async throws {
    let whole = try train(8)
    let session = try Session(bundle, options)
    var losses: [Double] = []
    var seen: [UInt64] = []
    for try await result in session.training(try batches(0..<5)) {
      losses.append(result.loss)
      seen.append(session.steps)
    }
    XCTAssertEqual(seen, [1, 2, 3, 4, 5])
    let before = try adapter(of: session)

    let sixth = try batches(5..<6)
    let run = Task { for try await _ in session.training(sixth) {} }
    try await sleep(seconds: withinAStep(whole.results))
    run.cancel()
    let end = await run.result
    XCTAssertThrowsError(try end.get()) { XCTAssertTrue($0 is CancellationError, "\($0)") }
    XCTAssertEqual(session.steps, 5)
    XCTAssertEqual(try adapter(of: session), before)

    try await session.run { [folder] in
      try $0.pause("\(folder)/state", user: Array("the data's place".utf8))
      XCTAssertEqual($0.kernels, "")
      XCTAssertEqual($0.notes, "")
      try $0.resume()
    }
    for try await result in session.training(try batches(5..<8)) { losses.append(result.loss) }
    XCTAssertEqual(losses, whole.results.map(\.loss))
    XCTAssertEqual(try adapter(of: session), whole.adapter)

    XCTAssertEqual(try Session.stepsOfState("\(folder)/state"), 5)
    let other = try Session(bundle, options)
    XCTAssertEqual(String(decoding: try other.loadState("\(folder)/state"), as: UTF8.self), "the data's place")
    XCTAssertEqual(other.notes, "")
    for try await _ in other.training(try batches(5..<8)) {}
    XCTAssertEqual(try adapter(of: other), whole.adapter)
  }

  func testWhatEndsARunEndsNoOther() async throws {
    let session = try Session(bundle, options)
    session.cancel()  // came too late for an earlier run
    for try await _ in session.training(try batches(0..<1)) {}
    try session.step(try batches(0..<1)[0])
    XCTAssertEqual(session.steps, 2)
    let many = try batches(0..<200)
    for attempt in 0..<5 {
      let run = Task { for try await _ in session.training(many) {} }
      try await sleep(seconds: Double(attempt) * 0.06)
      run.cancel()
      _ = await run.result
      let after = session.steps
      try session.step(many[0])
      XCTAssertEqual(session.steps, after + 1)
    }
  }

  func testAPauseEndsTheStepAndChangesNothingOfTheResult() async throws {
    let whole = try train(4)
    let session = try Session(bundle, options)
    let pause = Pause()
    let rest = try batches(0..<4)
    let run = Task {
      var losses: [Double] = []
      for try await result in session.training(rest, pause: pause) { losses.append(result.loss) }
      return losses
    }
    try await sleep(seconds: withinAStep(whole.results))
    pause.hold(.heat)  // within the first step
    pause.hold(.memory)
    pause.hold(.memory)
    let step = whole.results.map(\.seconds).max()!
    try await sleep(seconds: 3 * step)
    XCTAssertEqual(session.steps, 0, "a step was made in the pause")
    pause.release(.heat)
    try await sleep(seconds: 0.2 + step)
    XCTAssertEqual(session.steps, 0, "one of two reasons is left")
    XCTAssertTrue(pause.isHeld)
    pause.release(.memory)
    let losses = try await run.value
    XCTAssertEqual(losses, whole.results.map(\.loss))
    XCTAssertEqual(try adapter(of: session), whole.adapter)
  }

  func testAPauseCanBeCancelled() async throws {
    let session = try Session(bundle, options)
    let pause = Pause()
    pause.hold(.user)
    let some = try batches(0..<2)
    let run = Task { for try await _ in session.training(some, pause: pause) {} }
    try await sleep(seconds: 0.05)
    run.cancel()
    let end = await run.result
    XCTAssertThrowsError(try end.get()) { XCTAssertTrue($0 is CancellationError, "\($0)") }
    XCTAssertEqual(session.steps, 0)
  }

  func testAStepOfMicroBatchesIsTheStepOfAllTheirRows() throws {
    options.accumulate = true
    let info = try bundle.info
    let whole = try batches(0..<1)[0]
    let ids = (0..<info.maxBatch * info.maxSequence).map { Int32($0 * 7919 % info.vocabulary) }
    let rows = try (0..<info.maxBatch).map { row in
      try Batch(ids: Array(ids[row * info.maxSequence..<(row + 1) * info.maxSequence]))
    }
    let one = try Session(bundle, options).step(whole)
    let several = try Session(bundle, options).step(rows)
    XCTAssertEqual(one.tokens, several.tokens)
    XCTAssertEqual(one.loss, several.loss, accuracy: 1e-5 * one.loss)  // sums in another order, in f32
  }

  func testAnAdapterIsSavedForLlamaCppToo() throws {
    let session = try Session(bundle, options)
    try session.step(try batches(0..<1)[0])
    let file = "\(folder)/adapter.gguf"
    try session.saveAdapterGguf(file)
    let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
    XCTAssertEqual(bytes.prefix(4), Data("GGUF".utf8))
    XCTAssertLessThan(abs(bytes.count - (try adapter(of: session)).count), 20_000)  // f32, behind other names
    XCTAssertThrowsError(try session.saveAdapterGguf("\(folder)/none/adapter.gguf")) { error in
      XCTAssertTrue("\(error)".contains("\(folder)/none/adapter.gguf"), "\(error)")
    }
  }
}
