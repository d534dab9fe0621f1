// SPDX-License-Identifier: Apache-2.0
// Of Android, what this repository calls: declarations to check types against. No line of this runs.
package android.content.res

import android.os.ParcelFileDescriptor
import java.io.Closeable
import java.io.InputStream

class Configuration

class AssetFileDescriptor : Closeable {
    val parcelFileDescriptor: ParcelFileDescriptor get() = TODO()
    val startOffset: Long get() = TODO()
    val length: Long get() = TODO()
    override fun close(): Unit = TODO()
}

class AssetManager {
    fun openFd(name: String): AssetFileDescriptor = TODO()
    fun open(name: String): InputStream = TODO()
    fun list(path: String): Array<String>? = TODO()
}
