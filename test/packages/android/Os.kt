// SPDX-License-Identifier: Apache-2.0
// Of Android, what this repository calls: declarations to check types against. No line of this runs.
package android.os

object Build {
    object VERSION {
        val SDK_INT: Int get() = TODO()
    }
    object VERSION_CODES {
        const val Q = 29
    }
}

class Bundle

class Looper {
    companion object {
        fun getMainLooper(): Looper = TODO()
    }
}

class Handler(looper: Looper) {
    fun post(what: Runnable): Boolean = TODO()
    fun postDelayed(what: Runnable, milliseconds: Long): Boolean = TODO()
    fun removeCallbacks(what: Runnable): Unit = TODO()
}

class PowerManager {
    val currentThermalStatus: Int get() = TODO()
    val isInteractive: Boolean get() = TODO()
    fun interface OnThermalStatusChangedListener {
        fun onThermalStatusChanged(status: Int)
    }
    fun addThermalStatusListener(listener: OnThermalStatusChangedListener): Unit = TODO()
    fun removeThermalStatusListener(listener: OnThermalStatusChangedListener): Unit = TODO()

    companion object {
        const val THERMAL_STATUS_SEVERE = 3
    }
}

class BatteryManager {
    val isCharging: Boolean get() = TODO()
}

class ParcelFileDescriptor {
    val fd: Int get() = TODO()
}
