// SPDX-License-Identifier: Apache-2.0
// Of Android, what this repository calls: declarations to check types against. No line of this runs.
package android.view

open class View {
    fun setOnClickListener(listener: (View) -> Unit): Unit = TODO()
}
