// SPDX-License-Identifier: Apache-2.0
// Of Android, what this repository calls: declarations to check types against. No line of this runs.
package androidx.work

import android.content.Context
import java.util.concurrent.TimeUnit

class WorkerParameters

abstract class CoroutineWorker(context: Context, parameters: WorkerParameters) {
    val applicationContext: Context get() = TODO()
    abstract suspend fun doWork(): ListenableWorker.Result
}

abstract class ListenableWorker {
    abstract class Result {
        companion object {
            fun success(): Result = TODO()
            fun retry(): Result = TODO()
            fun failure(data: Data): Result = TODO()
        }
    }
}

class Data

fun workDataOf(vararg pairs: Pair<String, Any?>): Data = TODO()

class Constraints {
    class Builder {
        fun setRequiresCharging(does: Boolean): Builder = TODO()
        fun setRequiresStorageNotLow(does: Boolean): Builder = TODO()
        fun build(): Constraints = TODO()
    }
}

class PeriodicWorkRequest

class PeriodicWorkRequestBuilder<W : CoroutineWorker>(every: Long, unit: TimeUnit) {
    fun setConstraints(constraints: Constraints): PeriodicWorkRequestBuilder<W> = TODO()
    fun build(): PeriodicWorkRequest = TODO()
}

enum class ExistingPeriodicWorkPolicy { KEEP }

class WorkManager {
    fun enqueueUniquePeriodicWork(name: String, policy: ExistingPeriodicWorkPolicy, request: PeriodicWorkRequest): Any =
        TODO()
    fun cancelUniqueWork(name: String): Any = TODO()

    companion object {
        fun getInstance(context: Context): WorkManager = TODO()
    }
}
