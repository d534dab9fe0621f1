// SPDX-License-Identifier: Apache-2.0
package org.mebp

/** The functions of libmebp_jni.so, which is made of src/main/cpp. Handles are pointers: [Handle] keeps them alive. */
internal object Native {
    init {
        System.loadLibrary("mebp_jni")
    }

    external fun version(): ByteArray

    external fun bundleOpen(folder: ByteArray): Long
    external fun bundleOpenFiles(parts: LongArray): Long
    external fun bundleClose(bundle: Long)
    external fun bundleCheckWeights(bundle: Long)
    external fun bundleName(bundle: Long): ByteArray
    external fun bundleNumbers(bundle: Long): LongArray

    external fun sessionPeakBytes(bundle: Long, options: Array<ByteArray>): Long
    external fun sessionCreate(bundle: Long, options: Array<ByteArray>): Long
    external fun sessionDestroy(session: Long)
    external fun sessionStep(session: Long, ids: IntArray, labels: IntArray, shapes: IntArray): DoubleArray
    external fun sessionLoss(session: Long, ids: IntArray, labels: IntArray, shapes: IntArray): Double
    external fun sessionCancel(session: Long)
    external fun sessionClearCancel(session: Long)
    external fun sessionSteps(session: Long): Long
    external fun sessionKernels(session: Long): ByteArray
    external fun sessionNotes(session: Long): ByteArray
    external fun sessionSetLearningRate(session: Long, rate: Double)
    external fun sessionSaveAdapter(session: Long, folder: ByteArray)
    external fun sessionSaveAdapterGguf(session: Long, path: ByteArray)
    external fun sessionLoadAdapter(session: Long, folder: ByteArray)
    external fun sessionSaveState(session: Long, folder: ByteArray, user: ByteArray)
    external fun sessionPause(session: Long, folder: ByteArray, user: ByteArray)
    external fun sessionResume(session: Long)
    external fun sessionLoadState(session: Long, folder: ByteArray): ByteArray
    external fun stateSteps(folder: ByteArray): Long
    external fun lockFolder(folder: ByteArray): Long
    external fun lockRelease(lock: Long)

    external fun generationCreate(session: Long): Long
    external fun generationDestroy(generation: Long)
    external fun generationAppend(generation: Long, ids: IntArray, vocabulary: Int): FloatArray
    external fun generationRewind(generation: Long, positions: Int): Int
    external fun generationPositions(generation: Long): Int

    /** A path as C takes it. */
    fun path(path: String) = ended("path", path)

    /** Text as C takes it; [what] says what it is. */
    fun ended(what: String, text: String): ByteArray {
        if ('\u0000' in text) {
            throw MebpException(Code.INVALID_ARGUMENT, "the $what '${text.replace("\u0000", "\\0")}' has a zero in it")
        }
        return (text + '\u0000').toByteArray()
    }

    fun text(bytes: ByteArray) = String(bytes, Charsets.UTF_8)
}
