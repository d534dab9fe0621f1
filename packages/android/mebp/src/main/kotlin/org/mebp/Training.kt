// SPDX-License-Identifier: Apache-2.0
package org.mebp

import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.launch
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlinx.coroutines.withContext
import kotlinx.coroutines.yield

/**
 * A step of each batch, on a thread of [dispatcher], while it is collected. Cancelling the collector ends the step that
 * runs, at its next kernel, and returns behind it: the session is then as the last whole step left it, free for a save
 * or another run. [Session.steps] says how many there are.
 */
fun Session.training(
    batches: Iterator<Batch>,
    pause: Pause = Pause(),
    dispatcher: CoroutineDispatcher = Dispatchers.IO
): Flow<StepResult> = flow {
    endedWithItsJob { endStep ->
        pause.enter(endStep)
        try {
            while (batches.hasNext()) emit(stepUnlessHeld(batches.next(), pause, dispatcher))
        } finally {
            pause.leave(endStep)
        }
    }
}

/** Runs [calls], whose call into C is ended where the coroutine is cancelled, or by what they are given. */
internal suspend fun Session.endedWithItsJob(calls: suspend (endCall: () -> Unit) -> Unit) {
    val endCall = { cancel() }
    try {
        coroutineScope {
            // Told of a cancellation at once, while a thread is in C.
            val watch = launch(start = CoroutineStart.UNDISPATCHED) {
                suspendCancellableCoroutine<Unit> { it.invokeOnCancellation { endCall() } }
            }
            try {
                calls(endCall)
            } finally {
                watch.cancel()
            }
        }
    } finally {
        clearCancel() // what came too late shall end nobody else's call
    }
}

// Whoever wants the step to end says so first, the job or the pause, and cancels the session then. In the order of
// clearing, asking and stepping no such request is lost, and none is taken for another.
private suspend fun Session.stepUnlessHeld(batch: Batch, pause: Pause, dispatcher: CoroutineDispatcher): StepResult {
    while (true) {
        clearCancel()
        yield() // throws where the job is cancelled
        if (pause.isHeld) {
            pause.awaitRelease()
            continue
        }
        try {
            // A step that is finished although it was cancelled is told of, too.
            return withContext(NonCancellable + dispatcher) { step(batch) }
        } catch (failure: MebpException) {
            if (failure.code != Code.CANCELLED) throw failure
        }
    }
}
