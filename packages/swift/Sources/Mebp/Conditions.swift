// SPDX-License-Identifier: Apache-2.0

/// What a device says of itself.
public struct DeviceState: Sendable, Equatable {
  public var isCharging, isIdle, isHot: Bool
  public var freeBytes: Int64

  public init(isCharging: Bool, isIdle: Bool, isHot: Bool, freeBytes: Int64) {
    self.isCharging = isCharging
    self.isIdle = isIdle
    self.isHot = isHot
    self.freeBytes = freeBytes
  }
}

/// What a device has to say of itself for a `BackgroundRun` to train.
public struct Conditions: Sendable {
  public var charging = true
  /// Nobody uses it.
  public var idle = false
  public var cool = true
  /// What the run may write, and what others need beside it.
  public var freeBytes: Int64 = 256_000_000

  public init() {}

  /// In words for a log; nil where nothing is against it.
  public func reasonAgainst(_ device: DeviceState) -> String? {
    if charging && !device.isCharging { return "the device does not charge" }
    if idle && !device.isIdle { return "the device is in use" }
    if cool && device.isHot { return "the device is hot" }
    guard device.freeBytes < freeBytes else { return nil }
    let free = "the device has \(device.freeBytes / 1_000_000) MB free"
    return "\(free), of \(freeBytes / 1_000_000) MB that are asked for"
  }
}
