// SPDX-License-Identifier: Apache-2.0
// Of Android, what this repository calls: declarations to check types against. No line of this runs.
package android.widget

import android.content.Context
import android.view.View

open class TextView(context: Context) : View() {
    var text: CharSequence?
        get() = TODO()
        set(value) = TODO()
    fun append(text: CharSequence): Unit = TODO()
}

class Button(context: Context) : TextView(context)

class EditText(context: Context) : TextView(context)

class LinearLayout(context: Context) : View() {
    var orientation: Int
        get() = TODO()
        set(value) = TODO()
    fun addView(view: View): Unit = TODO()

    companion object {
        const val VERTICAL = 1
    }
}
