// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp
import XCTest

/// Bad input: an error with one line, never a crash.
final class RefusalTests: XCTestCase {
  private var archive: Archive!

  override func setUpWithError() throws { archive = try Archive(bundleFolder()) }

  private func open(
    program: ModelBundle.Part? = nil, manifest: ModelBundle.Part? = nil, weights: ModelBundle.Part? = nil
  ) throws {
    _ = try ModelBundle(
      program: program ?? archive.program, manifest: manifest ?? archive.manifest, weights: weights ?? archive.weights)
  }

  func testPipesAndFilesThatAreTooShort() throws {
    let pipe = Foundation.Pipe()
    let number = pipe.fileHandleForReading.fileDescriptor
    let part = ModelBundle.Part(descriptor: number)
    assertRefused(.io, "program.pb in descriptor \(number): is not a regular file") { try open(program: part) }
    assertRefused(.io, "manifest.json in descriptor \(number): is not a regular file") { try open(manifest: part) }
    assertRefused(.io, "weights.bin in descriptor \(number): is not a regular file") { try open(weights: part) }

    let path = scratchPath()
    try Data(count: 100).write(to: URL(fileURLWithPath: path))
    defer { try? FileManager.default.removeItem(atPath: path) }
    let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
    let short = file.fileDescriptor
    assertRefused(.invalidArgument, "descriptor \(short): 20 bytes at 90 were asked for, and the file has 100") {
      try open(weights: .init(descriptor: short, offset: 90, length: 20))
    }
    assertRefused(.corrupt, "weights.bin in descriptor \(short): has 100 bytes, the program needs") {
      try open(weights: .init(descriptor: short))
    }
    assertRefused(.corrupt, "program.pb in descriptor \(short)") { try open(program: .init(descriptor: short)) }
    assertRefused(.io, "weights.bin in descriptor -1: cannot open") { try open(weights: .init(descriptor: -1)) }
  }

  func testPathsBatchesAndOptions() throws {
    let nowhere = scratchPath() + "/größer"
    assertRefused(.notFound, "no bundle at \(nowhere); make one with mebpc") { _ = try ModelBundle(folder: nowhere) }
    assertRefused(.invalidArgument, "the path 'a\\0b' has a zero in it") { _ = try ModelBundle(folder: "a\0b") }
    assertRefused(.invalidArgument, "a batch of 7 ids and 7 labels is not one of 2 rows") {
      _ = try Batch(ids: [Int32](repeating: 1, count: 7), rows: 2)
    }
    assertRefused(.invalidArgument, "a batch of 0 ids and 0 labels is not one of 1099511627776 rows") {
      _ = try Batch(ids: [], rows: 1 << 40)
    }
    assertRefused(.invalidArgument, "7 ids and 6 labels") {
      _ = try Batch(ids: [Int32](repeating: 1, count: 7), labels: [Int32](repeating: 1, count: 6))
    }
    let bundle = try archive.open()
    try bundle.checkWeights()
    XCTAssertEqual(try bundle.info.maxSequence, 128)
    var options = SessionOptions()
    options.optimizer = .sgd
    XCTAssertLessThan(bundle.peakBytes(options), bundle.peakBytes())
    options.optimizerOptions = ["eps": "1e-7"]
    assertRefused(.invalidArgument, "sgd has no option 'eps'") { _ = try Session(bundle, options) }
    options.optimizer = .adamw
    options.optimizerOptions["betas"] = "0.9,0.99"
    XCTAssertEqual(bundle.peakBytes(options), bundle.peakBytes())
    options.optimizerOptions["betas"] = "0.9"
    assertRefused(.invalidArgument, "betas is 0.9; give 2 with a comma between") { _ = try Session(bundle, options) }
    options.optimizerOptions = ["eps": "1\0"]
    assertRefused(.invalidArgument, "the option 'eps1\\0' has a zero in it") { _ = try Session(bundle, options) }
    options.optimizerOptions = [:]
    options.learningRate = .nan
    XCTAssertEqual(bundle.peakBytes(options), 0)
    assertRefused(.invalidArgument, "learning") { _ = try Session(bundle, options) }
    let session = try Session(bundle)
    assertRefused(.outOfRange, "vocabulary") { try session.step(Batch(ids: [Int32](repeating: -1, count: 8))) }
    assertRefused(.invalidArgument, "create the session with accumulate") {
      let one = try Batch(ids: [1, 2, 3])
      try session.step([one, one])
    }
    assertRefused(.invalidArgument, "at least one micro-batch") { try session.step([]) }
    XCTAssertEqual(session.steps, 0)
    XCTAssertFalse(session.kernels.isEmpty)
    XCTAssertEqual(ModelBundle.libraryVersion.split(separator: ".").count, 3)
    let state = scratchPath()
    defer { try? FileManager.default.removeItem(atPath: state) }
    let large = (0..<100_000).map { UInt8($0 % 256) }
    try session.saveState(state, user: large)
    XCTAssertEqual(try session.loadState(state), large)
  }

  #if os(Linux)
    func testNothingStaysOfWhatIsReleased() throws {
      func isMapped() throws -> Bool {
        let maps = try String(contentsOfFile: "/proc/self/maps", encoding: .utf8)
        return maps.contains(archive.path)
      }
      do {
        let session = try Session(archive.open())  // which keeps its bundle
        try session.step(Batch(ids: [1, 2, 3, 4]))
        XCTAssertTrue(try isMapped(), "weights are mapped where they lie")
      }
      XCTAssertFalse(try isMapped())
    }
  #endif
}
