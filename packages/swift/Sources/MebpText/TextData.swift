// SPDX-License-Identifier: Apache-2.0
import CMebp
import Foundation
import Mebp

/// A file of JSON lines as the batches of a run. Rows, labels and their order are those of `mebp train` with the same
/// options and --no-packing: lines are {"text"}, {"prompt", "completion"} or {"messages"} (docs/data.md). Any other
/// form or key is refused, with the line. Any thread may use it; calls wait for one another.
///
///     let data = try TextData("chat.jsonl", bundle: "NAME.mebp", length: 256, rowsOfStep: 2)
///     for try await result in session.training(try (session.steps..<400).map(data.batch)) { show(result.loss) }
public final class TextData: @unchecked Sendable {
  private let pointer: OpaquePointer
  private let length: Int
  private let rowsOfStep: UInt32
  private let seed: UInt64
  private let lock = NSLock()

  /// What counts in the loss, as --loss-on.
  public enum LossOn: String, Sendable {
    case assistant, last, all, turns
  }

  /// Reads the whole file with the tokenizer, and for conversations the chat template, of the folder `bundle`. A row
  /// has `length` tokens at most. Tokens that have more than 4 MiB go to `folder`, on a disk; nil: $TMPDIR, or /var/tmp.
  public init(
    _ file: String, bundle: String, length: Int, rowsOfStep: Int, lossOn: LossOn = .assistant, seed: UInt64 = 0,
    folder: String? = nil
  ) throws {
    let path = try checkPath(file)
    let (bundle, folder) = (try checkPath(bundle), try checkPath(folder ?? ""))
    guard let rowLength = UInt32(exactly: length), rowsOfStep > 0, let rows = UInt32(exactly: rowsOfStep) else {
      let what = "a step of \(rowsOfStep) rows of up to \(length) tokens is none"
      throw MebpError(.invalidArgument, "\(what); give numbers from 1 on")
    }
    var source = mebp_token_source()
    mebp_token_source_init(&source)
    defer { mebp_token_source_close(&source) }
    try check { mebp_token_source_open(bundle, &source, $0) }
    var options = mebp_data_options()
    mebp_data_options_init(&options)
    options.length = rowLength
    options.seed = seed
    pointer = try lossOn.rawValue.withCString { lossOn in
      try folder.withCString { folder in
        options.loss_on = lossOn
        options.folder = folder.pointee == 0 ? nil : folder
        return try opened { mebp_data_open(path, &source, &options, $0, $1) }
      }
    }
    self.length = length
    self.rowsOfStep = rows
    self.seed = seed
  }

  deinit { mebp_data_close(pointer) }

  public var rows: UInt64 { mebp_data_rows(pointer) }

  /// Steps that see each row once.
  public var stepsOfEpoch: UInt64 { (rows + UInt64(rowsOfStep) - 1) / UInt64(rowsOfStep) }

  /// Names what the batches have in them and their order, for `BackgroundRun`.
  public var digest: String {
    "\(rows) rows, checksum \(mebp_data_checksum(pointer)), \(rowsOfStep) a step, seed \(seed)"
  }

  /// What was cut or left out, for people, a line each.
  public var notes: [String] {
    withExtendedLifetime(self) {
      (0...).lazy.map { mebp_data_note(self.pointer, $0) }.prefix { $0 != nil }.map { String(cString: $0!) }
    }
  }

  /// The rows of a step, counted from 0. Each epoch is an order of its own; its last step may have fewer rows.
  public func batch(_ step: UInt64) throws -> Batch {
    let room = Int(min(UInt64(rowsOfStep), rows)) * length
    var (ids, labels) = ([Int32](repeating: 0, count: room), [Int32](repeating: 0, count: room))
    var (count, columns): (UInt32, UInt32) = (0, 0)
    lock.lock()
    defer { lock.unlock() }
    try check { mebp_data_step(pointer, step, rowsOfStep, &ids, &labels, nil, &count, &columns, $0) }
    let written = Int(count) * Int(columns)
    return try Batch(ids: Array(ids.prefix(written)), labels: Array(labels.prefix(written)), rows: Int(count))
  }
}
