// SPDX-License-Identifier: Apache-2.0
package org.mebp.example

import android.app.Activity
import android.os.Bundle
import android.widget.Button
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.TextView
import java.io.File
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.launch
import kotlinx.coroutines.withContext
import org.mebp.ChatTemplate
import org.mebp.Generation
import org.mebp.MebpException
import org.mebp.ModelBundle
import org.mebp.Pause
import org.mebp.Session
import org.mebp.SessionOptions
import org.mebp.Tokenizer
import org.mebp.Turn
import org.mebp.android.DevicePause
import org.mebp.android.open
import org.mebp.training

/**
 * Trains the bundle in the assets on their chat.jsonl, and asks it. Stop saves; Train goes on from there, with the same
 * bits.
 */
class MainActivity : Activity() {
    private val job = Job()
    private val scope = CoroutineScope(Dispatchers.Main + job)
    private val pause = Pause()
    private val adapter get() = File(filesDir, "adapter").path
    private var run: Job? = null
    private lateinit var devicePause: DevicePause
    private lateinit var text: TextView
    private lateinit var question: EditText

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        devicePause = DevicePause(this, pause)
        text = TextView(this)
        val column = LinearLayout(this).apply { orientation = LinearLayout.VERTICAL }
        column.addView(button("Train") { start { train() } })
        column.addView(button("Stop") { run?.cancel() })
        column.addView(button("Train while it charges") { ChargingWorker.schedule(this) })
        question = EditText(this)
        column.addView(question)
        column.addView(button("Ask") { start { answer("${question.text}") } })
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

    /** One at a time. */
    private fun start(work: suspend () -> Unit) {
        if (run?.isActive == true) return
        run = scope.launch {
            try {
                work()
            } catch (failure: MebpException) {
                text.text = failure.message
            }
        }
    }

    private suspend fun train() {
        val state = File(filesDir, "state").path
        withSession(SessionOptions(clip = 1.0)) { bundle, session ->
            val data = withContext(Dispatchers.IO) {
                if (File(state).exists()) session.loadState(state)
                openData(this@MainActivity, bundle)
            }
            try {
                val batches = (session.steps until data.stepsOfEpoch).asSequence().map(data::batch)
                session.training(batches.iterator(), pause).collect { result ->
                    val megabytes = result.peakBytes / 1_000_000
                    text.text = "step ${session.steps}: loss ${result.loss}, ${result.seconds} s, $megabytes MB"
                }
                withContext(Dispatchers.IO) { session.saveAdapter(adapter) }
                text.text = "done"
            } finally {
                data.close()
                withContext(NonCancellable + Dispatchers.IO) { session.saveState(state) }
            }
        }
    }

    private suspend fun answer(asked: String) = withSession(SessionOptions(forwardOnly = true)) { _, session ->
        if (File(adapter).exists()) withContext(Dispatchers.IO) { session.loadAdapter(adapter) }
        val folder = withContext(Dispatchers.IO) { textFolder(this@MainActivity) }
        Tokenizer.open(folder).use { tokenizer ->
            ChatTemplate.open(folder).use { chat ->
                val prompt = chat.prompt(listOf(Turn("user", asked)), tokenizer)
                Generation(session).use { generation ->
                    text.text = ""
                    val ids = generation.tokens(prompt, limit = 100, ends = chat.ends)
                    tokenizer.decode(ids).collect { text.append(it) }
                }
            }
        }
    }

    private suspend fun withSession(options: SessionOptions, use: suspend (ModelBundle, Session) -> Unit) {
        val (bundle, session) = withContext(Dispatchers.IO) {
            val bundle = ModelBundle.open(assets, "model.mebp")
            Pair(bundle, Session(bundle, options))
        }
        try {
            use(bundle, session)
        } finally {
            withContext(NonCancellable + Dispatchers.IO) {
                session.close()
                bundle.close()
            }
        }
    }
}
