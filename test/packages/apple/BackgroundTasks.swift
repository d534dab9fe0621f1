// SPDX-License-Identifier: Apache-2.0
// Of Apple's systems, what packages/swift/Example/ChargingTask.swift calls: declarations to check types against. No
// line of this runs.
import Foundation

open class BGTask {
  public var expirationHandler: (@Sendable () -> Void)?
  public func setTaskCompleted(success: Bool) { fatalError() }
}

open class BGProcessingTask: BGTask, @unchecked Sendable {}

open class BGTaskRequest {}

public final class BGProcessingTaskRequest: BGTaskRequest {
  public var requiresExternalPower = false
  public init(identifier: String) {}
}

public final class BGTaskScheduler: Sendable {
  public static let shared = BGTaskScheduler()
  @discardableResult
  public func register(
    forTaskWithIdentifier: String, using: DispatchQueue?, launchHandler: @escaping @Sendable (BGTask) -> Void
  ) -> Bool { fatalError() }
  public func submit(_ request: BGTaskRequest) throws { fatalError() }
}

extension ProcessInfo {
  public enum ThermalState { case nominal, fair, serious, critical }
  public var thermalState: ThermalState { fatalError() }
}
