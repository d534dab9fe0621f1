// SPDX-License-Identifier: Apache-2.0
import CMebp
import Foundation

/// One training run of `steps` steps in as many pieces as a device allows. Each piece goes on where the last one saved,
/// which may have been in a process that is gone: the result has the same bits as a run in one piece.
///
/// `folder` gets the state, and the adapter (a PEFT folder) at the end. `batch` gives the batch of each step, counted
/// from 0, and has to give the same one whenever it is asked: `data` names what it reads, a digest for one, so that a
/// piece with other data is refused.
public struct BackgroundRun: Sendable {
  private let bundle: ModelBundle
  private let options: SessionOptions
  private let state, adapter, data: String
  private let steps, saveEvery: UInt64
  private let conditions: Conditions
  private let batch: @Sendable (UInt64) throws -> Batch

  public init(
    _ bundle: ModelBundle, _ options: SessionOptions = .init(), folder: String, data: String, steps: UInt64,
    conditions: Conditions = .init(), saveEvery: UInt64 = 50, batch: @escaping @Sendable (UInt64) throws -> Batch
  ) throws {
    guard steps > 0, saveEvery > 0 else {
      let what = "a run of \(steps) steps that saves every \(saveEvery) of them"
      throw MebpError(.invalidArgument, "\(what) is none; give numbers from 1 on")
    }
    self.bundle = bundle
    self.options = options
    state = folder + "/state"
    adapter = folder + "/adapter"
    self.data = data
    self.steps = steps
    self.conditions = conditions
    self.saveEvery = saveEvery
    self.batch = batch
  }

  /// Trains until the run is finished, or until `device`, which is asked before each step, has something against it.
  /// Returns nil where it is finished, else the reason. Cancelling the task saves, too; a process that is killed loses
  /// the steps since the last save, and the next piece makes them again. `.busy` where another piece runs.
  public func train(
    device: () -> DeviceState, pause: Pause = Pause(), onStep: (UInt64, StepResult) async -> Void = { _, _ in }
  ) async throws -> String? {
    if let reason = conditions.reasonAgainst(device()) { return reason }
    let lock = try FolderLock(state)
    defer { withExtendedLifetime(lock) {} }
    let session = try open()
    var saved = session.steps
    var reason: String?
    do {
      while session.steps < steps {
        reason = conditions.reasonAgainst(device())
        if reason != nil { break }
        for try await result in session.training([try batch(session.steps)], pause: pause) {
          if session.steps % saveEvery == 0 { saved = try await save(session, saved) }
          await onStep(session.steps, result)
        }
      }
    } catch {
      _ = try await save(session, saved)
      throw error
    }
    _ = try await save(session, saved)
    if session.steps < steps { return reason }
    try await session.run { [adapter] in try $0.saveAdapter(adapter) }
    return nil
  }

  private func save(_ session: Session, _ saved: UInt64) async throws -> UInt64 {
    if session.steps != saved {
      try await session.run { [state, data] in try $0.saveState(state, user: Array(data.utf8)) }
    }
    return session.steps
  }

  private func open() throws -> Session {
    let session = try Session(bundle, options)
    do {
      _ = try Session.stepsOfState(state)
    } catch let error as MebpError where error.code == .notFound {
      return session
    }
    let before = String(decoding: try session.loadState(state), as: UTF8.self)
    guard before == data else {
      let what = "\(state): is of a run on the data '\(before)', and this one has '\(data)'"
      throw MebpError(.invalidArgument, "\(what); remove the folder, or give that data")
    }
    return session
  }
}

/// Keeps a folder, which is made where it is not there, to this process for as long as this lives.
private final class FolderLock {
  private let pointer: OpaquePointer

  init(_ folder: String) throws {
    let path = try checkPath(folder)
    var made: OpaquePointer?
    try check { mebp_lock_folder(path, &made, $0) }
    pointer = made!
  }

  deinit { mebp_lock_release(pointer) }
}
