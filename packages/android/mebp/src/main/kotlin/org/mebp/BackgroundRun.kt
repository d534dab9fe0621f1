// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.withContext

/**
 * One training run of [steps] steps in as many pieces as a device allows. Each piece goes on where the last one saved,
 * which may have been in a process that is gone: the result has the same bits as a run in one piece.
 *
 * [folder] gets the state, and the adapter (a PEFT folder) at the end. [batch] gives the batch of each step, counted
 * from 0, and has to give the same one whenever it is asked: [data] names what it reads, a digest for one, so that a
 * piece with other data is refused.
 */
class BackgroundRun(
    private val bundle: ModelBundle,
    private val options: SessionOptions,
    folder: String,
    private val data: String,
    private val steps: Long,
    private val conditions: Conditions = Conditions(),
    private val saveEvery: Long = 50,
    private val batch: (step: Long) -> Batch
) {
    private val state = File(folder, "state").path
    private val adapter = File(folder, "adapter").path

    init {
        if (steps < 1 || saveEvery < 1) {
            val what = "a run of $steps steps that saves every $saveEvery of them"
            throw MebpException(Code.INVALID_ARGUMENT, "$what is none; give numbers from 1 on")
        }
    }

    /**
     * Trains until the run is finished, or until [device], which is asked before each step, has something against it.
     * Returns null where it is finished, else the reason. Cancelling the coroutine saves, too; a process that is killed
     * loses the steps since the last save, and the next piece makes them again. [Code.BUSY] where another piece runs.
     */
    suspend fun train(
        device: () -> DeviceState,
        pause: Pause = Pause(),
        dispatcher: CoroutineDispatcher = Dispatchers.IO,
        onStep: suspend (step: Long, result: StepResult) -> Unit = { _, _ -> }
    ): String? {
        conditions.reasonAgainst(device())?.let { return it }
        val lock = withContext(dispatcher) { FolderLock(state) }
        try {
            val session = withContext(dispatcher) { open() }
            try {
                return train(session, device, pause, dispatcher, onStep)
            } finally {
                withContext(NonCancellable + dispatcher) { session.close() }
            }
        } finally {
            lock.close()
        }
    }

    private suspend fun train(
        session: Session,
        device: () -> DeviceState,
        pause: Pause,
        dispatcher: CoroutineDispatcher,
        onStep: suspend (step: Long, result: StepResult) -> Unit
    ): String? {
        var saved = session.steps
        var reason: String? = null
        val batches = generateSequence {
            reason = conditions.reasonAgainst(device())
            if (session.steps < steps && reason == null) batch(session.steps) else null
        }
        suspend fun save() = withContext(NonCancellable + dispatcher) {
            if (session.steps != saved) session.saveState(state, data.toByteArray())
            saved = session.steps
        }
        try {
            session.training(batches.iterator(), pause, dispatcher).collect { result ->
                if (session.steps % saveEvery == 0L) save()
                onStep(session.steps, result)
            }
        } finally {
            save()
        }
        if (session.steps < steps) return reason
        withContext(NonCancellable + dispatcher) { session.saveAdapter(adapter) }
        return null
    }

    private fun open(): Session {
        val session = Session(bundle, options)
        try {
            if (hasState()) load(session)
            return session
        } catch (failure: Throwable) {
            session.close()
            throw failure
        }
    }

    private fun hasState(): Boolean = try {
        Session.stepsOfState(state) >= 0
    } catch (failure: MebpException) {
        if (failure.code != Code.NOT_FOUND) throw failure
        false
    }

    private fun load(session: Session) {
        val before = String(session.loadState(state), Charsets.UTF_8)
        if (before != data) {
            val what = "$state: is of a run on the data '$before', and this one has '$data'"
            throw MebpException(Code.INVALID_ARGUMENT, "$what; remove the folder, or give that data")
        }
    }
}
