// SPDX-License-Identifier: Apache-2.0
// Of Android, what this repository calls: declarations to check types against. No line of this runs.
package android.content

import android.content.res.AssetManager
import android.content.res.Configuration
import java.io.File

interface ComponentCallbacks2 {
    fun onTrimMemory(level: Int)
    fun onLowMemory()
    fun onConfigurationChanged(configuration: Configuration)

    companion object {
        const val TRIM_MEMORY_RUNNING_LOW = 10
        const val TRIM_MEMORY_RUNNING_CRITICAL = 15
    }
}

abstract class Context {
    val applicationContext: Context get() = TODO()
    val assets: AssetManager get() = TODO()
    val filesDir: File get() = TODO()
    val cacheDir: File get() = TODO()
    fun getSystemService(name: String): Any = TODO()
    fun registerComponentCallbacks(callbacks: ComponentCallbacks2): Unit = TODO()
    fun unregisterComponentCallbacks(callbacks: ComponentCallbacks2): Unit = TODO()

    companion object {
        const val ACTIVITY_SERVICE = "activity"
        const val POWER_SERVICE = "power"
        const val BATTERY_SERVICE = "batterymanager"
    }
}
