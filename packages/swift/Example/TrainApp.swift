// SPDX-License-Identifier: Apache-2.0
//
// An app's sources, for a project of Xcode that depends on the package: trains model.mebp on tokens.bin, both in the
// app's resources. Stop saves; Train goes on from there, with the same bits.
import Mebp
import SwiftUI

@main
struct TrainApp: App {
  @StateObject private var trainer = Trainer()

  var body: some Scene {
    WindowGroup {
      VStack(spacing: 16) {
        Text(trainer.text).monospacedDigit()
        Button(trainer.isRunning ? "Stop" : "Train") { trainer.isRunning ? trainer.stop() : trainer.start() }
      }
      .padding()
    }
  }
}

@MainActor
final class Trainer: ObservableObject {
  @Published private(set) var text = ""
  @Published private(set) var isRunning = false
  private let pause = Pause()
  private lazy var devicePause = DevicePause(pause)
  private var run: Task<Void, Never>?

  func start() {
    _ = devicePause
    isRunning = true
    run = Task {
      do {
        try await train()
        text = "done"
      } catch is CancellationError {
      } catch {
        text = error.localizedDescription
      }
      isRunning = false
    }
  }

  func stop() { run?.cancel() }

  private func train() async throws {
    let documents = FileManager.default.urls(for: .documentDirectory, in: .userDomainMask)[0].path
    let state = documents + "/state"
    let session = try await Task.detached {
      guard let folder = Foundation.Bundle.main.path(forResource: "model", ofType: "mebp") else {
        throw MebpError(.notFound, "model.mebp is not in the app; add it as a folder")
      }
      var options = SessionOptions()
      options.clip = 1
      let session = try Session(ModelBundle(folder: folder), options)
      if FileManager.default.fileExists(atPath: state) { try session.loadState(state) }
      return session
    }.value
    do {
      for try await result in session.training(try batches(of: session).dropFirst(Int(session.steps)), pause: pause) {
        text = "step \(session.steps): loss \(result.loss), \(result.seconds) s, \(result.peakBytes / 1_000_000) MB"
      }
    } catch {
      try await session.run { try $0.saveState(state) }
      throw error
    }
    try await session.run {
      try $0.saveState(state)
      try $0.saveAdapter(documents + "/adapter")
    }
  }

  /// Rows of little-endian numbers of 32 bits, as mebp-run takes them.
  private func batches(of session: Session) throws -> [Batch] {
    guard let url = Foundation.Bundle.main.url(forResource: "tokens", withExtension: "bin") else {
      throw MebpError(.notFound, "tokens.bin is not in the app")
    }
    let bytes = try Data(contentsOf: url)
    let tokens = bytes.withUnsafeBytes { $0.bindMemory(to: Int32.self).map(Int32.init(littleEndian:)) }
    let columns = try session.bundle.info.maxSequence
    return try stride(from: 0, through: tokens.count - columns, by: columns).map {
      try Batch(ids: Array(tokens[$0..<$0 + columns]))
    }
  }
}
