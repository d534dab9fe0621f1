// SPDX-License-Identifier: Apache-2.0
//
// Trains a piece of the run whenever the phone charges and nobody uses it. Call `register` before the app has launched,
// and `schedule` once; Info.plist has the identifier in BGTaskSchedulerPermittedIdentifiers, and the background mode
// "processing". All else is in BackgroundRun.
import BackgroundTasks
import Foundation
import Mebp

enum ChargingTask {
  private static let identifier = "org.mebp.training"

  static func register() {
    BGTaskScheduler.shared.register(forTaskWithIdentifier: identifier, using: nil) { task in
      if let processing = task as? BGProcessingTask { run(processing) }
    }
  }

  static func schedule() throws {
    let request = BGProcessingTaskRequest(identifier: identifier)
    request.requiresExternalPower = true
    try BGTaskScheduler.shared.submit(request)
  }

  private static func run(_ task: BGProcessingTask) {
    let work = Task {
      do {
        if try await train() != nil { try schedule() }
        task.setTaskCompleted(success: true)
      } catch {
        try? schedule()  // where the system wants its time back, the piece has saved
        task.setTaskCompleted(success: error is CancellationError)
      }
    }
    task.expirationHandler = { work.cancel() }
  }

  private static func train() async throws -> String? {
    let conversations = try Conversations()
    let data = conversations.data
    let documents = FileManager.default.urls(for: .documentDirectory, in: .userDomainMask)[0].path
    var options = SessionOptions()
    options.clip = 1
    let run = try BackgroundRun(
      conversations.bundle, options, folder: documents + "/background", data: data.digest, steps: conversations.steps
    ) { try data.batch($0) }
    return try await run.train(device: { deviceState(documents) })
  }

  /// The system runs the task only while the device charges and nobody uses it, and ends it where that ends.
  private static func deviceState(_ folder: String) -> DeviceState {
    let attributes = try? FileManager.default.attributesOfFileSystem(forPath: folder)
    let heat = ProcessInfo.processInfo.thermalState
    return DeviceState(
      isCharging: true, isIdle: true, isHot: heat == .serious || heat == .critical,
      freeBytes: (attributes?[.systemFreeSize] as? NSNumber)?.int64Value ?? 0)
  }
}
