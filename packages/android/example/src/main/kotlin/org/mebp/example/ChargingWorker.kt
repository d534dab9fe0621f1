// SPDX-License-Identifier: Apache-2.0
package org.mebp.example

import android.content.Context
import androidx.work.Constraints
import androidx.work.CoroutineWorker
import androidx.work.ExistingPeriodicWorkPolicy
import androidx.work.ListenableWorker.Result
import androidx.work.PeriodicWorkRequestBuilder
import androidx.work.WorkManager
import androidx.work.WorkerParameters
import androidx.work.workDataOf
import java.io.File
import java.util.concurrent.TimeUnit
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.withContext
import org.mebp.BackgroundRun
import org.mebp.MebpException
import org.mebp.ModelBundle
import org.mebp.Pause
import org.mebp.SessionOptions
import org.mebp.android.DevicePause
import org.mebp.android.deviceState
import org.mebp.android.open

/**
 * Trains a piece of the run whenever the phone charges. Where WorkManager stops it, its coroutine is cancelled, and the
 * piece saves. All else is in [BackgroundRun].
 */
class ChargingWorker(context: Context, parameters: WorkerParameters) : CoroutineWorker(context, parameters) {
    override suspend fun doWork(): Result {
        val pause = Pause()
        return try {
            DevicePause(applicationContext, pause).use {
                ModelBundle.open(applicationContext.assets, "model.mebp").use { train(it, pause) }
            }
        } catch (failure: MebpException) {
            Result.failure(workDataOf("line" to failure.message))
        }
    }

    private suspend fun train(bundle: ModelBundle, pause: Pause): Result =
        withContext(Dispatchers.IO) { openData(applicationContext, bundle) }.use { data ->
            val folder = File(applicationContext.filesDir, "background").path
            val steps = 4 * data.stepsOfEpoch
            val run = BackgroundRun(bundle, SessionOptions(clip = 1.0), folder, data.digest, steps, batch = data::batch)
            if (run.train({ deviceState(applicationContext) }, pause) == null) finish() else Result.retry()
        }

    private fun finish(): Result {
        WorkManager.getInstance(applicationContext).cancelUniqueWork(NAME)
        return Result.success()
    }

    companion object {
        private const val NAME = "org.mebp.training"

        /** From now on, also behind a restart. A second call changes nothing. */
        fun schedule(context: Context) {
            val charging = Constraints.Builder().setRequiresCharging(true).setRequiresStorageNotLow(true).build()
            val request = PeriodicWorkRequestBuilder<ChargingWorker>(1, TimeUnit.HOURS).setConstraints(charging).build()
            WorkManager.getInstance(context).enqueueUniquePeriodicWork(NAME, ExistingPeriodicWorkPolicy.KEEP, request)
        }
    }
}
