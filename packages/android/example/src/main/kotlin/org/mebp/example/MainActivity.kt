// SPDX-License-Identifier: Apache-2.0
package org.mebp.example

import android.app.Activity
import android.os.Bundle
import android.widget.Button
import android.widget.LinearLayout
import android.widget.TextView
import java.io.File
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.launch
import kotlinx.coroutines.withContext
import org.mebp.MebpException
import org.mebp.ModelBundle
import org.mebp.Pause
import org.mebp.Session
import org.mebp.SessionOptions
import org.mebp.android.DevicePause
import org.mebp.android.open
import org.mebp.training

/** Trains the bundle in the assets on their tokens.bin. Stop saves; Train goes on from there, with the same bits. */
class MainActivity : Activity() {
    private val job = Job()
    private val scope = CoroutineScope(Dispatchers.Main + job)
    private val pause = Pause()
    private var run: Job? = null
    private lateinit var devicePause: DevicePause
    private lateinit var text: TextView

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        devicePause = DevicePause(this, pause)
        text = TextView(this)
        val column = LinearLayout(this).apply { orientation = LinearLayout.VERTICAL }
        column.addView(button("Train") { if (run?.isActive != true) run = scope.launch { trainAndTell() } })
        column.addView(button("Stop") { run?.cancel() })
        column.addView(button("Train while it charges") { ChargingWorker.schedule(this) })
        column.addView(text)
        setContentView(column)
    }

    override fun onDestroy() {
        job.cancel() // the step that runs ends at its next kernel, and the state is saved behind it
        devicePause.close()
        super.onDestroy()
    }

    private fun button(label: String, act: () -> Unit) = Button(this).apply {
        text = label
        setOnClickListener { act() }
    }

    private suspend fun trainAndTell() {
        try {
            train()
            text.text = "done"
        } catch (cancelled: CancellationException) {
            throw cancelled
        } catch (failure: MebpException) {
            text.text = failure.message
        }
    }

    private suspend fun train() {
        val state = File(filesDir, "state").path
        val (bundle, session) = withContext(Dispatchers.IO) {
            val bundle = ModelBundle.open(assets, "model.mebp")
            Pair(bundle, Session(bundle, SessionOptions(clip = 1.0)).also { if (File(state).exists()) it.loadState(state) })
        }
        try {
            val tokens = Tokens(assets, bundle)
            val batches = (session.steps.toInt() until tokens.rows).asSequence().map(tokens::batch)
            session.training(batches.iterator(), pause).collect { result ->
                text.text = "step ${session.steps}: loss ${result.loss}, ${result.seconds} s, ${result.peakBytes / 1_000_000} MB"
            }
            withContext(Dispatchers.IO) { session.saveAdapter(File(filesDir, "adapter").path) }
        } finally {
            withContext(NonCancellable + Dispatchers.IO) {
                session.saveState(state)
                session.close()
                bundle.close()
            }
        }
    }
}
