// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import java.util.Random
import kotlinx.coroutines.runBlocking

/** What a run in the background is tested with. */
internal class BackgroundCase(val bundle: ModelBundle, private val folder: File) {
    val options = SessionOptions(clip = 1.0)

    fun run(conditions: Conditions = Conditions(), data: String = "random", saveEvery: Long = 2) =
        BackgroundRun(bundle, options, folder.path, data, STEPS, conditions, saveEvery, ::batch)

    fun batch(step: Long): Batch {
        val random = Random(step)
        return Batch(IntArray(bundle.info.maxSequence) { random.nextInt(bundle.info.vocabulary) })
    }

    val adapter: ByteArray get() = File(folder, "adapter/adapter_model.safetensors").readBytes()

    companion object {
        const val STEPS = 12L
        val ALLOWS = DeviceState(isCharging = true, isIdle = true, isHot = false, freeBytes = Long.MAX_VALUE)
    }
}

/** A process that trains in the background, for whoever kills it: says each step and its loss. */
internal object BackgroundTrainer {
    @JvmStatic
    fun main(arguments: Array<String>) = runBlocking {
        val case = BackgroundCase(ModelBundle.open(arguments[0]), File(arguments[1]))
        case.run().train({ BackgroundCase.ALLOWS }) { step, result -> println("$step ${result.loss}") }
        println("finished")
    }
}
