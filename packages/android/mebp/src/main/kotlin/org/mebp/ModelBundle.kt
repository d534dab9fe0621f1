// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.Closeable

/** A model that mebpc has compiled, NAME.mebp. Any thread may use it. Sessions keep what they need of a closed one. */
class ModelBundle private constructor(pointer: Long) : Closeable {
    internal val handle = Handle("bundle", pointer, Native::bundleClose)

    /** [length] bytes of an open file from [offset] on; 0: up to its end. */
    class Part(val descriptor: Int, val offset: Long = 0, val length: Long = 0) {
        internal fun check(name: String) {
            if (offset < 0 || length < 0) {
                val what = "$name in descriptor $descriptor: $length bytes at $offset were asked for"
                throw MebpException(Code.INVALID_ARGUMENT, "$what; give numbers from 0 on")
            }
        }
    }

    val info: BundleInfo
        get() = handle.use { bundle ->
            val numbers = Native.bundleNumbers(bundle)
            BundleInfo(
                name = Native.text(Native.bundleName(bundle)),
                vocabulary = numbers[0].toInt(),
                maxBatch = numbers[1].toInt(),
                maxSequence = numbers[2].toInt(),
                trainables = numbers[3].toInt(),
                loraRank = numbers[4].toInt(),
                weightsBytes = numbers[5],
                peakBytes = numbers[6]
            )
        }

    /** The planned peak of a process that runs such a session and nothing else; 0 where the options are refused. */
    fun peakBytes(options: SessionOptions = SessionOptions()): Long =
        handle.use {
            Native.sessionPeakBytes(it, options.texts())
        }

    /** Reads all of the weights and compares them with the checksum that mebpc left. Opening does not. */
    fun checkWeights() = handle.use { Native.bundleCheckWeights(it) }

    override fun close() = handle.close()

    companion object {
        val libraryVersion: String get() = Native.text(Native.version())

        /** Opens the folder [folder]. */
        fun open(folder: String) = ModelBundle(Native.bundleOpen(Native.path(folder)))

        /** Opens what lies in open files, such as an application's package. The descriptors may be closed afterwards. */
        fun open(program: Part, manifest: Part, weights: Part): ModelBundle {
            val parts = listOf(program, manifest, weights)
            for ((part, name) in parts.zip(listOf("program.pb", "manifest.json", "weights.bin"))) part.check(name)
            return ModelBundle(Native.bundleOpenFiles(parts.flatMap { part ->
                listOf(part.descriptor.toLong(), part.offset, part.length)
            }.toLongArray()))
        }
    }
}

data class BundleInfo(
    val name: String,
    val vocabulary: Int,
    val maxBatch: Int,
    val maxSequence: Int,
    val trainables: Int,
    val loraRank: Int,
    val weightsBytes: Long,
    /** As planned: anonymous and written memory of a process that trains and does nothing else. */
    val peakBytes: Long
)
