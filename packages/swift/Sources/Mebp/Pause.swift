// SPDX-License-Identifier: Apache-2.0
import Foundation

/// Holds a training run for as long as there is a reason: heat, a lack of memory, a user. The step that runs is ended at
/// its next kernel, and made again when the last reason is gone; what it computes then is the same. Any thread may call.
public final class Pause: @unchecked Sendable {
  public struct Reason: Hashable, Sendable {
    let name: String
    public init(_ name: String) { self.name = name }

    public static let heat = Reason("heat")
    public static let memory = Reason("memory")
    public static let user = Reason("user")
  }

  private let lock = NSLock()
  private var reasons: Set<Reason> = []
  private var running: [ObjectIdentifier: Session] = [:]

  public init() {}

  public var isHeld: Bool { lock.withLock { !reasons.isEmpty } }

  public func hold(_ reason: Reason) {
    let ended = lock.withLock {
      reasons.insert(reason)
      return Array(running.values)
    }
    for session in ended { session.cancel() }
  }

  public func release(_ reason: Reason) {
    _ = lock.withLock { reasons.remove(reason) }
  }

  /// Returns where nothing holds; whether it had to wait.
  func awaitRelease() async throws -> Bool {
    guard isHeld else { return false }
    while isHeld { try await Task.sleep(nanoseconds: 100_000_000) }  // a reason lasts for seconds to minutes
    return true
  }

  /// `session`'s step is ended where a reason comes until `leave`.
  func enter(_ session: Session) { lock.withLock { running[ObjectIdentifier(session)] = session } }
  func leave(_ session: Session) { _ = lock.withLock { running.removeValue(forKey: ObjectIdentifier(session)) } }
}
