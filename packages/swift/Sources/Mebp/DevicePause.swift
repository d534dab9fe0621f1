// SPDX-License-Identifier: Apache-2.0
#if canImport(Darwin)
  import Foundation

  /// Holds `pause` while the device is hot or short of memory, for as long as this lives.
  public final class DevicePause {
    private let pause: Pause
    private let memory: DispatchSourceMemoryPressure
    private var heat: NSObjectProtocol?

    public init(_ pause: Pause) {
      self.pause = pause
      let source = DispatchSource.makeMemoryPressureSource(eventMask: [.normal, .warning, .critical])
      memory = source
      source.setEventHandler { [weak source] in
        guard let event = source?.data else { return }
        if event.contains(.normal) { pause.release(.memory) } else { pause.hold(.memory) }
      }
      source.resume()
      heat = NotificationCenter.default.addObserver(
        forName: ProcessInfo.thermalStateDidChangeNotification, object: nil, queue: nil
      ) { _ in Self.followHeat(pause) }
      Self.followHeat(pause)
    }

    deinit {
      memory.cancel()
      if let heat { NotificationCenter.default.removeObserver(heat) }
      pause.release(.memory)
      pause.release(.heat)
    }

    private static func followHeat(_ pause: Pause) {
      switch ProcessInfo.processInfo.thermalState {
      case .serious, .critical: pause.hold(.heat)
      default: pause.release(.heat)
      }
    }
  }
#endif
