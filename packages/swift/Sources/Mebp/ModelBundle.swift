// SPDX-License-Identifier: Apache-2.0
import CMebp
import Foundation

/// A model that mebpc has compiled, NAME.mebp. Any thread may use it. A session keeps its bundle.
public final class ModelBundle: @unchecked Sendable {
  let pointer: OpaquePointer

  /// `length` bytes of an open file from `offset` on; 0: up to its end.
  public struct Part: Sendable {
    public let descriptor: Int32
    public let offset, length: UInt64

    public init(descriptor: Int32, offset: UInt64 = 0, length: UInt64 = 0) {
      self.descriptor = descriptor
      self.offset = offset
      self.length = length
    }

    var part: mebp_file_part { mebp_file_part(descriptor: descriptor, offset: offset, length: length) }
  }

  public struct Info: Sendable {
    public let name: String
    public let vocabulary, maxBatch, maxSequence, trainables, loraRank: Int
    public let weightsBytes: UInt64
    /// As planned: anonymous and written memory of a process that trains and does nothing else.
    public let peakBytes: UInt64
  }

  /// Opens the folder `folder`.
  public init(folder: String) throws {
    let path = try checkPath(folder)
    var opened: OpaquePointer?
    try check { mebp_bundle_open(path, &opened, $0) }
    pointer = opened!
  }

  /// Opens what lies in open files, such as one archive. The descriptors may be closed afterwards.
  public init(program: Part, manifest: Part, weights: Part) throws {
    var files = mebp_bundle_files()
    mebp_bundle_files_init(&files)
    files.program = program.part
    files.manifest = manifest.part
    files.weights = weights.part
    var opened: OpaquePointer?
    try check { mebp_bundle_open_files(&files, &opened, $0) }
    pointer = opened!
  }

  deinit { mebp_bundle_close(pointer) }

  public static var libraryVersion: String { String(cString: mebp_version()) }

  public var info: Info {
    get throws {
      var info = mebp_bundle_info()
      mebp_bundle_info_init(&info)
      defer { withExtendedLifetime(self) {} }  // the name is the bundle's
      try check { mebp_bundle_get_info(pointer, &info, $0) }
      return Info(
        name: String(cString: info.name), vocabulary: Int(info.vocabulary), maxBatch: Int(info.max_batch),
        maxSequence: Int(info.max_sequence), trainables: Int(info.trainables), loraRank: Int(info.lora_rank),
        weightsBytes: info.weights_bytes, peakBytes: info.peak_bytes)
    }
  }

  /// The planned peak of a process that runs such a session and nothing else; 0 where the options are refused.
  public func peakBytes(_ options: SessionOptions = .init()) -> UInt64 {
    (try? options.withC { mebp_session_peak_bytes(pointer, $0) }) ?? 0
  }

  /// Reads all of the weights and compares them with the checksum that mebpc left. Opening does not.
  public func checkWeights() throws { try check { mebp_bundle_check_weights(pointer, $0) } }
}
