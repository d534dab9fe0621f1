// SPDX-License-Identifier: Apache-2.0
//
// An app's sources, for a project of Xcode that depends on the package: trains model.mebp on chat.jsonl, both in the
// app's resources, and answers questions with what it has learned. Stop saves; Train goes on from there, with the same
// bits.
import Mebp
import SwiftUI

@main
struct TrainApp: App {
  @StateObject private var trainer = Trainer()
  @State private var question = ""

  init() { ChargingTask.register() }

  var body: some Scene {
    WindowGroup {
      VStack(spacing: 16) {
        Text(trainer.text).monospacedDigit()
        Button(trainer.isRunning ? "Stop" : "Train") { trainer.isRunning ? trainer.stop() : trainer.start() }
        Button("Train while it charges") { trainer.trainWhileItCharges() }
        TextField("Question", text: $question).onSubmit { trainer.answer(question) }.disabled(trainer.isRunning)
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
    perform {
      try await self.train()
      self.text = "done"
    }
  }

  func answer(_ question: String) {
    perform {
      let (session, conversations) = try await self.open()
      self.text = ""
      for try await piece in try conversations.answer(question, by: session) { self.text += piece }
    }
  }

  func stop() { run?.cancel() }

  func trainWhileItCharges() {
    do { try ChargingTask.schedule() } catch { text = error.localizedDescription }
  }

  private func perform(_ work: @escaping @MainActor () async throws -> Void) {
    isRunning = true
    run = Task {
      do {
        try await work()
      } catch is CancellationError {
      } catch {
        text = error.localizedDescription
      }
      isRunning = false
    }
  }

  private let documents = FileManager.default.urls(for: .documentDirectory, in: .userDomainMask)[0].path
  private var state: String { documents + "/state" }

  private func open() async throws -> (Session, Conversations) {
    try await Task.detached { [state] in
      let conversations = try Conversations()
      var options = SessionOptions()
      options.clip = 1
      let session = try Session(conversations.bundle, options)
      if FileManager.default.fileExists(atPath: state) { try session.loadState(state) }
      return (session, conversations)
    }.value
  }

  private func train() async throws {
    let (session, conversations) = try await open()
    let (state, adapter) = (state, documents + "/adapter")
    guard session.steps < conversations.steps else { return }
    let batches = try (session.steps..<conversations.steps).map(conversations.data.batch)
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
      try $0.saveAdapter(adapter)
    }
  }
}
