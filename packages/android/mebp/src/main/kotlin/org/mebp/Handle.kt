// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.Closeable

/**
 * A pointer of the C library, which [free] ends. Whoever calls C with it holds it meanwhile: after [close] nobody new
 * gets hold of it, and the last who leaves frees it. So no call ever sees freed memory, and close waits for nobody.
 */
internal class Handle(private val name: String, private val pointer: Long, private val free: (Long) -> Unit) {
    private var holders = 1 // its owner, until close
    private var isClosed = false

    inline fun <T> use(call: (Long) -> T): T {
        val held = hold()
        try {
            return call(held)
        } finally {
            leave()
        }
    }

    /** To be followed by [leave]. */
    fun hold(): Long = holdIfOpen() ?: throw MebpException(Code.INVALID_ARGUMENT, "the $name is closed; open another")

    /** Likewise, where it is not null. */
    @Synchronized
    fun holdIfOpen(): Long? {
        if (isClosed) return null
        ++holders
        return pointer
    }

    fun leave() {
        val wasLast = synchronized(this) { --holders == 0 }
        if (wasLast) free(pointer)
    }

    /** A second time it does nothing. */
    fun close() {
        synchronized(this) {
            if (isClosed) return
            isClosed = true
        }
        leave()
    }
}

/** Keeps [folder], which is made where it is not there, to this process until [close], or until its end. */
internal class FolderLock(folder: String) : Closeable {
    private val handle = Handle("lock", Native.lockFolder(Native.path(folder)), Native::lockRelease)

    override fun close() = handle.close()
}
