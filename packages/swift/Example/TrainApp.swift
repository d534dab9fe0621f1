// SPDX-License-Identifier: Apache-2.0
//
// An app's sources, for a project of Xcode that depends on the package: trains model.mebp on tokens.bin, both in the
// app's resources. Stop saves; Train goes on from there, with the same bits.
import Mebp
import SwiftUI

@main
struct TrainApp: App {
  @StateObject private var trainer = Trainer()

  init() { ChargingTask.register() }

  var body: some Scene {
    WindowGroup {
      VStack(spacing: 16) {
        Text(trainer.text).monospacedDigit()
        Button(trainer.isRunning ? "Stop" : "Train") { trainer.isRunning ? trainer.stop() : trainer.start() }
        Button("Train while it charges") { trainer.trainWhileItCharges() }
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

  func trainWhileItCharges() {
    do { try ChargingTask.schedule() } catch { text = error.localizedDescription }
  }

  private func train() async throws {
    let documents = FileManager.default.urls(for: .documentDirectory, in: .userDomainMask)[0].path
    let state = documents + "/state"
    let (session, tokens) = try await Task.detached {
      let tokens = try Tokens()
      var options = SessionOptions()
      options.clip = 1
      let session = try Session(tokens.bundle, options)
      if FileManager.default.fileExists(atPath: state) { try session.loadState(state) }
      return (session, tokens)
    }.value
    let batches = try (Int(session.steps)..<tokens.rows).map(tokens.batch)
    do {
      for try await result in session.training(batches, pause: pause) {
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
}
