// SPDX-License-Identifier: Apache-2.0

/// Steps, one each time that the next result is asked for:
///
///     for try await result in session.training(batches) { show(result.loss) }
///
/// Cancelling the task ends the step that runs, at its next kernel, and throws CancellationError behind it: the session
/// is then as the last whole step left it. `Session.steps` says how many there are.
public struct Training<Batches: Sequence>: AsyncSequence where Batches.Element == Batch {
  public typealias Element = StepResult
  let session: Session
  let batches: Batches
  let pause: Pause

  public struct AsyncIterator: AsyncIteratorProtocol {
    let session: Session
    let pause: Pause
    var batches: Batches.Iterator

    public mutating func next() async throws -> StepResult? {
      guard let batch = batches.next() else { return nil }
      pause.enter(session)
      defer {
        pause.leave(session)
        session.clearCancel()  // what came too late shall end nobody else's step
      }
      // Whoever wants the step to end says so first, the task or the pause, and cancels the session then. In the order
      // of clearing, asking and stepping no such request is lost, and none is taken for another.
      while true {
        session.clearCancel()
        try Task.checkCancellation()
        if try await pause.awaitRelease() { continue }
        do {
          return try await withTaskCancellationHandler {
            try await session.run { try $0.step(batch) }
          } onCancel: { [session] in
            session.cancel()
          }
        } catch let error as MebpError where error.code == .cancelled {}
      }
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(session: session, pause: pause, batches: batches.makeIterator())
  }
}

extension Session {
  /// A step of each batch; nothing is computed before the first result is asked for.
  public func training<Batches: Sequence>(_ batches: Batches, pause: Pause = Pause()) -> Training<Batches>
  where Batches.Element == Batch {
    Training(session: self, batches: batches, pause: pause)
  }
}
