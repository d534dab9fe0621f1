// SPDX-License-Identifier: Apache-2.0
package org.mebp.android

import android.content.Context
import android.os.BatteryManager
import android.os.Build
import android.os.PowerManager
import org.mebp.DeviceState

/** What this device says of itself, for a BackgroundRun: heat from Android 10 on. */
fun deviceState(context: Context): DeviceState {
    val battery = context.getSystemService(Context.BATTERY_SERVICE) as BatteryManager
    val power = context.getSystemService(Context.POWER_SERVICE) as PowerManager
    return DeviceState(
        isCharging = battery.isCharging,
        isIdle = !power.isInteractive,
        isHot = Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q &&
            power.currentThermalStatus >= PowerManager.THERMAL_STATUS_SEVERE,
        freeBytes = context.filesDir.usableSpace
    )
}
