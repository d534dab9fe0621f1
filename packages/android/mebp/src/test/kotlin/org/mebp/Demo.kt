// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import org.junit.Assert.assertTrue
import org.junit.Test

/** What scripts/demo.sh does between compiling and asking, with its settings and without Python: `test_jni.sh demo`. */
class Demo {
    private val folder = File(checkNotNull(System.getProperty("mebp.demo")) { "give -Dmebp.demo=FOLDER" })
    private val bundle = File(folder, "smollm2.mebp").path

    /** A rise over ten steps to 2e-3, and a fall that would reach 0 behind the last one. */
    private fun rate(step: Long, steps: Long) =
        2e-3 * if (step < 10) (step + 1) / 11.0 else 1 - (step - 10) / (steps - 10).toDouble()

    @Test
    fun `150 conversations in, an adapter and 25 right answers out`() = runBlocking {
        val adapter = File(folder, "adapter").path
        ModelBundle.open(bundle).use { model ->
            Session(model).use { session ->
                train(session, model.info)
                session.saveAdapter(adapter)
            }
            Session(model, SessionOptions(forwardOnly = true)).use { session ->
                assertTrue("it knew the answers before", rightAnswers(session) < 5)
                session.loadAdapter(adapter)
                val right = rightAnswers(session)
                println("$right of 30 answers are right")
                assertTrue("$right of 30 answers are right", right >= 25)
            }
        }
    }

    private suspend fun train(session: Session, info: BundleInfo) {
        val conversations = File("examples/brindle_rock.jsonl").path
        TextData(conversations, bundle, info.maxSequence, info.maxBatch, folder = folder.path).use { data ->
            val steps = 4 * data.stepsOfEpoch
            val batches = (0 until steps).asSequence().map { step ->
                session.setLearningRate(rate(step, steps))
                data.batch(step)
            }
            session.training(batches.iterator()).collect { println("step ${session.steps} of $steps: ${it.loss}") }
        }
    }

    private suspend fun rightAnswers(session: Session): Int = Tokenizer.open(bundle).use { tokenizer ->
        ChatTemplate.open(bundle).use { chat ->
            Generation(session).use { generation ->
                val questions = File("examples/brindle_rock_questions.jsonl").readLines()
                questions.count { line ->
                    val texts = Regex("\"([^\"]*)\"")
                    val question = texts.find(line.substringAfter("\"content\": "))!!.groupValues[1]
                    val accepted = texts.findAll(line.substringAfter("\"accept\": ")).map { it.groupValues[1] }
                    generation.rewind(0)
                    val ids = generation.tokens(chat.prompt(listOf(Turn("user", question)), tokenizer), 16, chat.ends)
                    val answer = tokenizer.decode(ids).toList().joinToString("")
                    accepted.any { Regex("(?<!\\w)${Regex.escape(it)}(?!\\w)", RegexOption.IGNORE_CASE) in answer }
                }
            }
        }
    }
}
