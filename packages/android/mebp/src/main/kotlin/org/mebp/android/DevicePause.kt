// SPDX-License-Identifier: Apache-2.0
package org.mebp.android

import android.app.ActivityManager
import android.content.ComponentCallbacks2
import android.content.Context
import android.content.res.Configuration
import android.os.Build
import android.os.Handler
import android.os.Looper
import android.os.PowerManager
import java.io.Closeable
import org.mebp.Pause

/**
 * Holds [pause] while the device is hot or short of memory, until [close]. The system tells of heat from Android 10 on;
 * of memory it warns, and says whether that is over where it is asked.
 */
class DevicePause(context: Context, private val pause: Pause) : Closeable {
    private val application = context.applicationContext
    private val activities = application.getSystemService(Context.ACTIVITY_SERVICE) as ActivityManager
    private val handler = Handler(Looper.getMainLooper())

    private val warnings = object : ComponentCallbacks2 {
        override fun onTrimMemory(level: Int) {
            if (level in ComponentCallbacks2.TRIM_MEMORY_RUNNING_LOW..ComponentCallbacks2.TRIM_MEMORY_RUNNING_CRITICAL) {
                pause.hold(Pause.MEMORY)
            }
        }
        override fun onLowMemory() = pause.hold(Pause.MEMORY)
        override fun onConfigurationChanged(configuration: Configuration) = Unit
    }

    private val look = object : Runnable {
        override fun run() {
            val memory = ActivityManager.MemoryInfo().also(activities::getMemoryInfo)
            if (memory.lowMemory) pause.hold(Pause.MEMORY) else pause.release(Pause.MEMORY)
            handler.postDelayed(this, LOOK_EVERY_MS)
        }
    }

    private val endHeat: () -> Unit

    init {
        application.registerComponentCallbacks(warnings)
        handler.post(look)
        endHeat = if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) followHeat() else ({})
    }

    override fun close() {
        application.unregisterComponentCallbacks(warnings)
        handler.removeCallbacks(look)
        endHeat()
        pause.release(Pause.MEMORY)
        pause.release(Pause.HEAT)
    }

    private fun followHeat(): () -> Unit {
        val power = application.getSystemService(Context.POWER_SERVICE) as PowerManager
        val listener = PowerManager.OnThermalStatusChangedListener { status ->
            if (status >= PowerManager.THERMAL_STATUS_SEVERE) pause.hold(Pause.HEAT) else pause.release(Pause.HEAT)
        }
        power.addThermalStatusListener(listener) // which is told at once how it is now
        return { power.removeThermalStatusListener(listener) }
    }

    private companion object {
        const val LOOK_EVERY_MS = 5_000L
    }
}
