// SPDX-License-Identifier: Apache-2.0
// written by docs/write_options.py (make docs) from runtime/train/option_table.h; do not edit
import CMebp
import Foundation

/// What mebp.h calls mebp_session_options, with its defaults.
public struct SessionOptions: Sendable {
  public enum Optimizer: String, Sendable {
    case adamw, sgd, lion, adamw8bit, galore, qgalore, mezo
  }

  /// Which optimizer: adamw, sgd, lion, adamw8bit, galore, qgalore or mezo, which takes losses instead of gradients
  /// (default: as compiled).
  public var optimizer: Optimizer = .adamw
  /// Compute on cpu, mlx (a GPU) or mlx-cpu, see mebp devices (default: cpu).
  public var device: String?
  /// Learning rate; with a schedule, the highest (default: 2e-4).
  public var learningRate: Double = 2e-4
  /// Weight decay, decoupled but for sgd (default: 0).
  public var weightDecay: Double = 0.0
  /// The most that the gradient's L2 norm over all trainables may be, as torch's clip_grad_norm_ has it (default: any).
  public var clip: Double?
  /// CPU threads to use (default: all).
  public var threads: UInt32?
  /// The naive kernels that the fast ones are checked against, whatever MEBP_KERNELS says.
  public var referenceKernels: Bool = false
  /// Losses, logits and generation alone: no room for gradients, checkpoints or an optimizer's state.
  public var forwardOnly: Bool = false
  /// Room for gradients that are read; without it, accumulate and clip, each gradient is applied as soon as it is
  /// there, and a step needs as little as was planned.
  public var returnGradients: Bool = false
  /// Room for steps over several micro-batches, or over sequences.
  public var accumulate: Bool = false
  /// Keep at most this much of the mapped weights in memory, such as 128MiB.
  public var residentLimit: UInt64?
  /// Keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills).
  public var spillFolder: String?
  /// Record every kernel call, for ui.perfetto.dev.
  public var traceFile: String?
  /// Keep what is trained and the optimizer's state there, too; every step writes all of it.
  public var stateInFile: Bool = false
  /// Generation alone, by a bundle that was compiled for it: not even room for a loss.
  public var generateOnly: Bool = false
  /// Compute gradients twice instead of keeping them for clip; the same bits without their room.
  public var clipRecompute: Bool = false
  /// With accumulate, room for a gradient whose factor comes later.
  public var pendingGradients: Bool = false
  /// With accumulate, a value head has an adapter and an optimizer state of its own.
  public var valueAdapter: Bool = false
  /// Of the optimizers that have them; nil: the optimizer's own.
  public var beta1: Double?
  public var beta2: Double?
  public var epsilon: Double?
  public var momentum: Double?
  /// Others that the optimizer has of its own, by their names on command lines, as text: ["betas": "0.9,0.99"].
  public var optimizerOptions: [String: String] = [:]

  public init() {}

  /// Of what is not nil.
  private var texts: [(name: String, text: String)] {
    let known: [(String, String?)] = [
      ("optimizer", optimizer.rawValue),
      ("backend", device),
      ("learning_rate", String(learningRate)),
      ("weight_decay", String(weightDecay)),
      ("clip", clip.map { String($0) }),
      ("threads", threads.map { String($0) }),
      ("reference_kernels", String(referenceKernels)),
      ("forward_only", String(forwardOnly)),
      ("return_gradients", String(returnGradients)),
      ("accumulate", String(accumulate)),
      ("resident_limit", residentLimit.map { "\($0)B" }),
      ("spill_folder", spillFolder),
      ("trace_file", traceFile),
      ("state_in_file", String(stateInFile)),
      ("generate_only", String(generateOnly)),
      ("clip_recompute", String(clipRecompute)),
      ("pending_gradients", String(pendingGradients)),
      ("value_adapter", String(valueAdapter)),
      ("beta1", beta1.map { String($0) }),
      ("beta2", beta2.map { String($0) }),
      ("epsilon", epsilon.map { String($0) }),
      ("momentum", momentum.map { String($0) }),
    ]
    let given = known.compactMap { name, text in text.map { (name, $0) } }
    return given + optimizerOptions.map { ($0.key, $0.value) }
  }

  func withC<Result>(_ body: (UnsafePointer<mebp_session_options>) throws -> Result) throws -> Result {
    var options = mebp_session_options()
    mebp_session_options_init(&options)
    var held: [UnsafeMutablePointer<CChar>] = []  // paths stay ours until the body has ended
    defer { held.forEach { free($0) } }
    for (name, text) in texts {
      _ = try checkText("option", name + text)
      let value = strdup(text)!
      held.append(value)
      try check { mebp_session_options_set(&options, name, value, $0) }
    }
    return try body(&options)
  }
}
