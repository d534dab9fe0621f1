// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.Closeable
import java.io.File
import java.io.FileOutputStream
import java.io.OutputStream
import java.io.RandomAccessFile
import java.nio.file.Files
import java.util.zip.CRC32
import java.util.zip.ZipEntry
import java.util.zip.ZipOutputStream

/** A bundle in one uncompressed archive, aligned as an application's package is, open as one descriptor. */
internal class Archive(bundle: File, alignment: Int = 16384) : Closeable {
    private val parts = HashMap<String, Pair<Long, Long>>()
    val file: File = File.createTempFile("package", ".apk")
    private val opened: RandomAccessFile

    init {
        val counted = Counted(FileOutputStream(file))
        ZipOutputStream(counted).use { zip ->
            zip.setMethod(ZipOutputStream.STORED)
            add(zip, counted, "assets/other", "what comes first".toByteArray(), 1)
            for (name in listOf("program.pb", "manifest.json", "weights.bin")) {
                add(zip, counted, name, File(bundle, name).readBytes(), alignment)
            }
        }
        opened = RandomAccessFile(file, "r")
    }

    fun part(name: String): ModelBundle.Part {
        val (offset, length) = parts.getValue(name)
        return ModelBundle.Part(descriptorOf(file), offset, length)
    }

    fun open() = ModelBundle.open(part("program.pb"), part("manifest.json"), part("weights.bin"))

    override fun close() {
        opened.close()
        file.delete()
    }

    private fun add(zip: ZipOutputStream, counted: Counted, name: String, content: ByteArray, alignment: Int) {
        val entry = ZipEntry(name)
        entry.size = content.size.toLong()
        entry.compressedSize = entry.size
        entry.crc = CRC32().apply { update(content) }.value
        zip.flush()
        // A field that nobody knows, as zipalign leaves it: number, length, zeros. The header before it has 30 bytes.
        val begin = counted.count + 30 + name.length + 4
        val padding = ((alignment - begin % alignment) % alignment).toInt()
        entry.extra = byteArrayOf(0x35, 0xd9.toByte(), padding.toByte(), (padding shr 8).toByte()) + ByteArray(padding)
        zip.putNextEntry(entry)
        zip.flush()
        check(counted.count % alignment == 0L) { "$name begins at ${counted.count}" }
        parts[name] = Pair(counted.count, entry.size)
        zip.write(content)
        zip.closeEntry()
    }

    private class Counted(private val out: OutputStream) : OutputStream() {
        var count = 0L

        override fun write(byte: Int) {
            out.write(byte)
            ++count
        }
        override fun write(bytes: ByteArray, offset: Int, length: Int) {
            out.write(bytes, offset, length)
            count += length
        }
        override fun close() = out.close()
    }
}

/** The number under which this process has [file] open. Java does not tell; Android's ParcelFileDescriptor does. */
internal fun descriptorOf(file: File): Int = checkNotNull(File("/proc/self/fd").listFiles()).first {
    try {
        Files.readSymbolicLink(it.toPath()).toString() == file.path
    } catch (gone: java.io.IOException) {
        false
    }
}.name.toInt()

/** Whether this process has [file] mapped. */
internal fun isMapped(file: File) = File("/proc/self/maps").useLines { lines -> lines.any { file.path in it } }

internal val bundleFolder = File(checkNotNull(System.getProperty("mebp.bundle")) { "give -Dmebp.bundle=NAME.mebp" })

internal fun scratchFolder(): File = Files.createTempDirectory("mebp").toFile()
