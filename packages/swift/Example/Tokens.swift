// SPDX-License-Identifier: Apache-2.0
import Foundation
import Mebp

/// The app's model.mebp, and its tokens.bin: rows of little-endian numbers of 32 bits, as mebp-run takes them.
struct Tokens: Sendable {
  let bundle: ModelBundle
  private let ids: [Int32]
  private let columns: Int

  init() throws {
    guard let folder = Foundation.Bundle.main.path(forResource: "model", ofType: "mebp") else {
      throw MebpError(.notFound, "model.mebp is not in the app; add it as a folder")
    }
    guard let url = Foundation.Bundle.main.url(forResource: "tokens", withExtension: "bin") else {
      throw MebpError(.notFound, "tokens.bin is not in the app; add it to its resources")
    }
    bundle = try ModelBundle(folder: folder)
    columns = try bundle.info.maxSequence
    ids = try Data(contentsOf: url).withUnsafeBytes { $0.bindMemory(to: Int32.self).map(Int32.init(littleEndian:)) }
  }

  var rows: Int { ids.count / columns }

  /// Names what is in it.
  var digest: String { "\(ids.count) tokens, \(ids.reduce(UInt64(0)) { $0 &* 31 &+ UInt64(UInt32(bitPattern: $1)) })" }

  func batch(_ row: Int) throws -> Batch { try Batch(ids: Array(ids[row * columns..<(row + 1) * columns])) }
}
