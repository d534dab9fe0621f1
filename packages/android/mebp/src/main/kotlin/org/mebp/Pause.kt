// SPDX-License-Identifier: Apache-2.0
package org.mebp

import kotlinx.coroutines.CompletableDeferred

/**
 * Holds a training run for as long as there is a reason: heat, a lack of memory, a user. The step that runs is ended
 * at its next kernel, and made again when the last reason is gone; what it computes then is the same. Any thread may
 * call.
 */
class Pause {
    private val reasons = HashSet<String>()
    private var released = CompletableDeferred<Unit>()
    private val runs = ArrayList<() -> Unit>()

    val isHeld: Boolean @Synchronized get() = reasons.isNotEmpty()

    /** A second time it does nothing. */
    @Synchronized
    fun hold(reason: String) {
        val isFirst = reasons.isEmpty()
        reasons.add(reason)
        if (isFirst) {
            released = CompletableDeferred()
            runs.forEach { endStep -> endStep() }
        }
    }

    /** Where there is no such reason, it does nothing. */
    @Synchronized
    fun release(reason: String) {
        if (reasons.remove(reason) && reasons.isEmpty()) released.complete(Unit)
    }

    /** Returns where nothing holds. */
    internal suspend fun awaitRelease() {
        while (true) {
            val next = synchronized(this) { if (reasons.isEmpty()) null else released } ?: return
            next.await()
        }
    }

    /** [endStep] is called when a reason comes. */
    @Synchronized
    internal fun enter(endStep: () -> Unit) {
        runs.add(endStep)
    }

    @Synchronized
    internal fun leave(endStep: () -> Unit) {
        runs.remove(endStep)
    }

    companion object {
        const val HEAT = "heat"
        const val MEMORY = "memory"
        const val USER = "user"
    }
}
