// SPDX-License-Identifier: Apache-2.0
// Of Android, what this repository calls: declarations to check types against. No line of this runs.
package android.app

import android.content.Context
import android.os.Bundle
import android.view.View

class ActivityManager {
    class MemoryInfo {
        @JvmField var lowMemory = false
    }
    fun getMemoryInfo(info: MemoryInfo): Unit = TODO()
}

open class Activity : Context() {
    open fun onCreate(saved: Bundle?): Unit = TODO()
    open fun onDestroy(): Unit = TODO()
    fun setContentView(view: View): Unit = TODO()
}
