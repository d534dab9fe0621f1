// SPDX-License-Identifier: Apache-2.0
package org.mebp

/** What a device says of itself. */
data class DeviceState(val isCharging: Boolean, val isIdle: Boolean, val isHot: Boolean, val freeBytes: Long)

/** What a device has to say of itself for a [BackgroundRun] to train. */
data class Conditions(
    val charging: Boolean = true,
    /** Nobody uses it. */
    val idle: Boolean = false,
    val cool: Boolean = true,
    /** What the run may write, and what others need beside it. */
    val freeBytes: Long = 256_000_000
) {
    /** In words for a log; null where nothing is against it. */
    fun reasonAgainst(device: DeviceState): String? = when {
        charging && !device.isCharging -> "the device does not charge"
        idle && !device.isIdle -> "the device is in use"
        cool && device.isHot -> "the device is hot"
        device.freeBytes < freeBytes -> "the device has ${device.freeBytes / 1_000_000} MB free, " +
            "of ${freeBytes / 1_000_000} MB that are asked for"
        else -> null
    }
}
