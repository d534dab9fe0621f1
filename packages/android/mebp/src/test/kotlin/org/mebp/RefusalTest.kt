// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import java.io.RandomAccessFile
import java.util.concurrent.CountDownLatch
import kotlin.concurrent.thread
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test

/** Bad input and a life that has ended: an exception with one line, never a crash. */
class RefusalTest {
    private val archive = Archive(bundleFolder)
    private val folder = scratchFolder()

    @After
    fun close() {
        archive.close()
        folder.deleteRecursively()
    }

    private fun tokens(count: Int) = IntArray(count) { it % 7 }

    private fun openWith(
        program: ModelBundle.Part = archive.part("program.pb"),
        manifest: ModelBundle.Part = archive.part("manifest.json"),
        weights: ModelBundle.Part = archive.part("weights.bin")
    ) = ModelBundle.open(program, manifest, weights).close()

    @Test
    fun `descriptors that are pipes`() {
        val fifo = File(folder, "pipe")
        assertEquals(0, ProcessBuilder("mkfifo", fifo.path).start().waitFor())
        RandomAccessFile(fifo, "rw").use {
            val number = descriptorOf(fifo)
            val pipe = ModelBundle.Part(number)
            val line = "in descriptor $number: is not a regular file"
            refused(Code.IO, "program.pb $line") { openWith(program = pipe) }
            refused(Code.IO, "manifest.json $line") { openWith(manifest = pipe) }
            refused(Code.IO, "weights.bin $line") { openWith(weights = pipe) }
        }
    }

    @Test
    fun `descriptors of files that are too short`() {
        val weights = archive.part("weights.bin")
        val short = File(folder, "short").apply { writeBytes(ByteArray(100)) }
        RandomAccessFile(short, "r").use {
            val number = descriptorOf(short)
            val line = "descriptor $number: ${weights.length} bytes at 0 were asked for, and the file has 100"
            refused(Code.INVALID_ARGUMENT, line) { openWith(weights = ModelBundle.Part(number, 0, weights.length)) }
            refused(Code.CORRUPT, "descriptor $number: has 100 bytes, the program needs ${weights.length}") {
                openWith(weights = ModelBundle.Part(number))
            }
            refused(Code.CORRUPT, "program.pb in descriptor $number") { openWith(program = ModelBundle.Part(number)) }
            refused(Code.CORRUPT, "manifest.json in descriptor $number") { openWith(manifest = ModelBundle.Part(number)) }
        }
        val cut = ModelBundle.Part(weights.descriptor, weights.offset, weights.length - 1)
        refused(Code.CORRUPT, "it is cut off, compile it again") { openWith(weights = cut) }
    }

    @Test
    fun `a file that is cut off while it is mapped`() {
        archive.open().use { bundle ->
            Session(bundle).use { session ->
                session.step(Batch(tokens(8)))
                RandomAccessFile(archive.file, "rw").use { it.setLength(archive.part("weights.bin").offset) }
                refused(Code.IO, "was cut off while it was used") { session.step(Batch(tokens(8))) }
            }
        }
    }

    @Test
    fun `parts that cannot be`() {
        val weights = archive.part("weights.bin")
        refused(Code.IO, "manifest.json in descriptor -1: cannot open") { openWith(manifest = ModelBundle.Part(-1)) }
        refused(Code.INVALID_ARGUMENT, "weights.bin in descriptor ${weights.descriptor}: 7 bytes at -1 were asked for") {
            openWith(weights = ModelBundle.Part(weights.descriptor, -1, 7))
        }
        Archive(bundleFolder, alignment = 1).use { packed -> // by a tool that aligns nothing
            val part = packed.part("weights.bin")
            if (part.offset % 4 != 0L) {
                refused(Code.INVALID_ARGUMENT, "which is not a multiple of 4; align it there") { openWith(weights = part) }
            }
        }
    }

    @Test
    fun `paths`() {
        refused(Code.NOT_FOUND, "no bundle at ${folder.path}/größer; make one with mebpc") {
            ModelBundle.open("${folder.path}/größer")
        }
        refused(Code.INVALID_ARGUMENT, "the path 'a\\0b' has a zero in it") { ModelBundle.open("a\u0000b") }
        archive.open().use { bundle ->
            Session(bundle).use { session ->
                val adapter = File(folder, "größer 模型 \uD83D\uDE00")
                session.saveAdapter(adapter.path)
                session.loadAdapter(adapter.path)
                assertTrue(File(adapter, "adapter_model.safetensors").exists())
                refused(Code.NOT_FOUND, "${folder.path}/nothing") { session.loadState("${folder.path}/nothing") }
                val large = ByteArray(100_000) { it.toByte() }
                session.saveState("${folder.path}/state", large)
                assertTrue(large.contentEquals(session.loadState("${folder.path}/state")))
            }
        }
    }

    @Test
    fun `batches and options`() {
        archive.open().use { bundle ->
            refused(Code.INVALID_ARGUMENT, "a batch of 7 ids and 7 labels is not one of 2 rows") { Batch(tokens(7), rows = 2) }
            refused(Code.INVALID_ARGUMENT, "a batch of 7 ids and 6 labels") { Batch(tokens(7), tokens(6)) }
            refused(Code.INVALID_ARGUMENT, "of 0 rows") { Batch(tokens(7), rows = 0) }
            refused(Code.INVALID_ARGUMENT, "threads is -1") { Session(bundle, SessionOptions(threads = -1)) }
            refused(Code.INVALID_ARGUMENT, "learning") { Session(bundle, SessionOptions(learningRate = Double.NaN)) }
            assertEquals(0L, bundle.peakBytes(SessionOptions(learningRate = Double.NaN)))
            assertTrue(bundle.peakBytes(SessionOptions(optimizer = Optimizer.SGD)) < bundle.peakBytes())
            fun refusedOption(line: String, vararg options: Pair<String, Any>) {
                val given = SessionOptions(optimizerOptions = mapOf(*options))
                refused(Code.INVALID_ARGUMENT, line) { Session(bundle, given) }
                assertEquals(0L, bundle.peakBytes(given))
            }
            refusedOption("adamw has no option 'galore-scale'", "galore-scale" to 0.5)
            refusedOption("betas is 0.9,1.5; give 2 with a comma between", "betas" to "0.9,1.5")
            refusedOption("eps is -1.0; give a finite number of at least 0", "eps" to -1.0)
            refused(Code.INVALID_ARGUMENT, "beta1 is 1.5; give a number") { Session(bundle, SessionOptions(beta1 = 1.5)) }
            refused(Code.INVALID_ARGUMENT, "the option '1\\0' has a zero in it") {
                Session(bundle, SessionOptions(optimizerOptions = mapOf("eps" to "1\u0000")))
            }
            refused(Code.UNSUPPORTED, "no optimizer has an option 'rate'; choose betas, eps,") {
                Session(bundle, SessionOptions(optimizerOptions = mapOf("rate" to 1)))
            }
            val options = SessionOptions(beta1 = 0.8, optimizerOptions = mapOf("eps" to 1.0E-7, "betas" to "0.9,0.99"))
            assertEquals(bundle.peakBytes(), bundle.peakBytes(options))
            Session(bundle, options).close()
            Session(bundle).use { session ->
                refused(Code.INVALID_ARGUMENT, "at least one micro-batch") { session.step() }
                refused(Code.INVALID_ARGUMENT, "create the session with accumulate") {
                    session.step(Batch(tokens(8)), Batch(tokens(8)))
                }
                refused(Code.OUT_OF_RANGE, "vocabulary") { session.step(Batch(IntArray(8) { -1 })) }
                refused(Code.INVALID_ARGUMENT, "the learning rate nan") { session.setLearningRate(Double.NaN) }
                assertEquals(0L, session.steps)
                // Native itself, past what Batch checks.
                val none = IntArray(0)
                refused(Code.INVALID_ARGUMENT, "micro-batch 0 has 65536 rows of 65536 tokens") {
                    nativeStep(session, tokens(8), tokens(8), intArrayOf(65536, 65536))
                }
                refused(Code.INVALID_ARGUMENT, "more than its ids or labels") {
                    nativeStep(session, tokens(8), none, intArrayOf(1, 8))
                }
                refused(Code.INVALID_ARGUMENT, "micro-batch 0 has -1 rows") {
                    nativeStep(session, tokens(8), tokens(8), intArrayOf(-1, -8))
                }
            }
        }
    }

    private fun nativeStep(session: Session, ids: IntArray, labels: IntArray, shapes: IntArray) {
        val field = Session::class.java.getDeclaredField("handle").apply { isAccessible = true }
        (field.get(session) as Handle).use { Native.sessionStep(it, ids, labels, shapes) }
    }

    @Test
    fun `what is closed is refused, and closing again does nothing`() {
        val bundle = archive.open()
        val session = Session(bundle)
        bundle.close()
        bundle.close()
        refused(Code.INVALID_ARGUMENT, "the bundle is closed; open another") { bundle.info }
        refused(Code.INVALID_ARGUMENT, "the bundle is closed; open another") { Session(bundle) }
        session.step(Batch(tokens(8))) // keeps what it needs of the bundle
        session.close()
        session.close()
        session.cancel()
        for (call in listOf<() -> Unit>({ session.steps }, { session.step(Batch(tokens(8))) }, { session.kernels },
            { session.saveState(folder.path) }, { session.loadState(folder.path) }, { session.setLearningRate(1e-3) })) {
            refused(Code.INVALID_ARGUMENT, "the session is closed; open another", call)
        }
    }

    @Test
    fun `nothing stays of what is closed`() {
        archive.open().use { bundle ->
            Session(bundle).use { it.step(Batch(tokens(8))) }
            assertTrue("weights are mapped where they lie", isMapped(archive.file))
        }
        assertFalse(isMapped(archive.file))
        refused(Code.INVALID_ARGUMENT, "learning") {
            archive.open().use { Session(it, SessionOptions(learningRate = -1.0)) } // holds no bundle
        }
        assertFalse(isMapped(archive.file))
        val before = File("/proc/self/fd").list()!!.size
        repeat(50) { archive.open().use { bundle -> Session(bundle, SessionOptions(threads = 1)).close() } }
        assertTrue(File("/proc/self/fd").list()!!.size <= before + 2)
    }

    @Test
    fun `one thread at a time, and closing beside a step`() {
        archive.open().use { bundle ->
            val info = bundle.info
            val ids = Batch(tokens(info.maxBatch * info.maxSequence), rows = info.maxBatch)
            repeat(6) { round ->
                val session = Session(bundle, SessionOptions(clip = 1.0))
                val begun = CountDownLatch(1)
                val codes = java.util.Collections.synchronizedList(ArrayList<Code>())
                val others = (0 until 4).map {
                    thread {
                        begun.countDown()
                        try {
                            while (true) {
                                try {
                                    session.step(ids)
                                } catch (busy: MebpException) {
                                    if (busy.code != Code.BUSY) throw busy
                                }
                            }
                        } catch (end: MebpException) {
                            codes.add(end.code)
                        }
                    }
                }
                begun.await()
                Thread.sleep(round * 40L)
                session.close()
                others.forEach { it.join(60_000) }
                assertEquals(4, codes.size)
                assertTrue(codes.toString(), codes.all { it == Code.CANCELLED || it == Code.INVALID_ARGUMENT })
            }
        }
        assertFalse(isMapped(archive.file))
    }
}
