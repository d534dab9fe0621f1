// SPDX-License-Identifier: Apache-2.0
import CMebp
import Foundation

/// Rows of token ids, and labels as in transformers: -100 is ignored, shifted inside.
public struct Batch: Sendable {
  public let ids, labels: [Int32]
  let rows, columns: UInt32

  public init(ids: [Int32], labels: [Int32]? = nil, rows: Int = 1) throws {
    let labels = labels ?? ids
    guard rows >= 1, ids.count % rows == 0, labels.count == ids.count, let rowCount = UInt32(exactly: rows),
      let columnCount = UInt32(exactly: ids.count / rows)
    else {
      let what = "a batch of \(ids.count) ids and \(labels.count) labels is not one of \(rows) rows"
      throw MebpError(.invalidArgument, "\(what); give each row as many, and as many labels as ids")
    }
    self.ids = ids
    self.labels = labels
    self.rows = rowCount
    columns = columnCount
  }
}

public struct StepResult: Sendable, Equatable {
  /// Mean over the labels that count.
  public let loss: Double
  /// Before clipping and the update.
  public let gradNorm: Double
  /// Labels that count.
  public let tokens: UInt64
  public let seconds: Double
  /// The highest memory of this process seen so far, as ModelBundle.Info.peakBytes counts it.
  public let peakBytes: UInt64
}

/// One training run over a bundle. These functions wait for their end and belong on a thread that may wait; `training`
/// and `run` are for tasks. One thread uses it at a time, another one gets `.busy`; `cancel`, `steps`,
/// `kernels` and `notes` are for all.
/// It is freed with its last reference.
public final class Session: @unchecked Sendable {
  public let bundle: ModelBundle  // outlives it
  let pointer: OpaquePointer
  private let queue = DispatchQueue(label: "org.mebp.session")

  public init(_ bundle: ModelBundle, _ options: SessionOptions = .init()) throws {
    self.bundle = bundle
    var made: OpaquePointer?
    try options.withC { options in try check { mebp_session_create(bundle.pointer, options, &made, $0) } }
    pointer = made!
  }

  deinit { mebp_session_destroy(pointer) }

  /// Steps made so far.
  public var steps: UInt64 { mebp_session_steps(pointer) }

  /// The family of kernels that runs, "neon_bf16" for one.
  public var kernels: String { withExtendedLifetime(self) { String(cString: mebp_session_kernels(pointer)) } }

  /// One line about the state that was loaded last, or "".
  public var notes: String { withExtendedLifetime(self) { String(cString: mebp_session_notes(pointer)) } }

  /// Forward, backward and the update. Where it throws, nothing has changed, but where the code is `.poisoned`.
  @discardableResult
  public func step(_ batch: Batch) throws -> StepResult { try step([batch]) }

  /// The same over several micro-batches, with `accumulate`.
  @discardableResult
  public func step(_ batches: [Batch]) throws -> StepResult {
    var result = mebp_step_result()
    mebp_step_result_init(&result)
    try withBatches(batches[...]) { list in
      try check { mebp_session_step_batches(pointer, list, UInt32(list.count), &result, $0) }
    }
    return StepResult(
      loss: result.loss, gradNorm: result.grad_norm, tokens: result.tokens, seconds: result.seconds,
      peakBytes: result.peak_bytes)
  }

  public func loss(_ batch: Batch) throws -> Double {
    var loss = 0.0
    try check { mebp_session_loss(pointer, batch.ids, batch.labels, batch.rows, batch.columns, &loss, $0) }
    return loss
  }

  public func setLearningRate(_ rate: Double) throws { try check { mebp_session_set_learning_rate(pointer, rate, $0) } }

  /// A PEFT folder, written whole or not at all.
  public func saveAdapter(_ folder: String) throws {
    let path = try checkPath(folder)
    try check { mebp_session_save_adapter(pointer, path, $0) }
  }

  /// llama.cpp's form, one file, written whole or not at all. `.unsupported` where llama.cpp has no such adapter.
  public func saveAdapterGguf(_ path: String) throws {
    let path = try checkPath(path)
    try check { mebp_session_save_adapter_gguf(pointer, path, $0) }
  }

  public func loadAdapter(_ folder: String) throws {
    let path = try checkPath(folder)
    try check { mebp_session_load_adapter(pointer, path, $0) }
  }

  /// All that a bitwise equal continuation needs; `user` travels along.
  public func saveState(_ folder: String, user: [UInt8] = []) throws {
    let path = try checkPath(folder)
    try check { mebp_session_save_state(pointer, path, user, UInt64(user.count), $0) }
  }

  /// Saves the state, as `saveState` does, and gives the memory back; other calls throw `.paused` until `resume`.
  public func pause(_ folder: String, user: [UInt8] = []) throws {
    let path = try checkPath(folder)
    try check { mebp_session_pause(pointer, path, user, UInt64(user.count), $0) }
  }

  /// Continues, bit for bit, where `pause` left the session. Where it throws, the session stays paused.
  public func resume() throws {
    try check { mebp_session_resume(pointer, $0) }
  }

  /// Returns what travelled along. Its size is known once it has been read, so what is larger than usual is read again.
  @discardableResult
  public func loadState(_ folder: String) throws -> [UInt8] {
    let path = try checkPath(folder)
    var user = [UInt8](repeating: 0, count: 4096)
    var size = UInt64(user.count)
    do {
      try check { mebp_session_load_state(pointer, path, &user, &size, $0) }
    } catch let error as MebpError where error.code == .invalidArgument && size > user.count {
      user = [UInt8](repeating: 0, count: Int(size))
      try check { mebp_session_load_state(pointer, path, &user, &size, $0) }
    }
    return Array(user.prefix(Int(size)))
  }

  /// The steps of the state that would be loaded from `folder`.
  public static func stepsOfState(_ folder: String) throws -> UInt64 {
    let path = try checkPath(folder)
    var steps: UInt64 = 0
    try check { mebp_state_steps(path, &steps, $0) }
    return steps
  }

  /// Ends the step or loss that another thread runs: it throws `.cancelled`, and nothing has changed. Where none runs,
  /// the next one ends so. `training` is ended by its task instead.
  public func cancel() { mebp_session_cancel(pointer) }

  func clearCancel() { mebp_session_clear_cancel(pointer) }

  /// Runs `body`, a step or a save, on a thread of the session's own, one after another.
  public func run<Result: Sendable>(_ body: @escaping @Sendable (Session) throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      queue.async { continuation.resume(with: Swift.Result { try body(self) }) }
    }
  }

  // Each array is where it is for as long as the function that it is handed to runs.
  private func withBatches(
    _ batches: ArraySlice<Batch>, _ list: [mebp_batch] = [], _ body: ([mebp_batch]) throws -> Void
  ) throws {
    guard let batch = batches.first else { return try body(list) }
    try batch.ids.withUnsafeBufferPointer { ids in
      try batch.labels.withUnsafeBufferPointer { labels in
        let next = mebp_batch(ids: ids.baseAddress, labels: labels.baseAddress, batch: batch.rows, sequence: batch.columns)
        try withBatches(batches.dropFirst(), list + [next], body)
      }
    }
  }
}
