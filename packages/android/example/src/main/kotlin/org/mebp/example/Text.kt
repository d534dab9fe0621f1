// SPDX-License-Identifier: Apache-2.0
package org.mebp.example

import android.content.Context
import java.io.File
import org.mebp.ModelBundle
import org.mebp.TextData
import org.mebp.android.copyFile
import org.mebp.android.copyText

/** Where the tokenizer and the chat template of the bundle in the assets are opened. */
internal fun textFolder(context: Context): String =
    context.assets.copyText("model.mebp", File(context.filesDir, "text"))

/** The assets' chat.jsonl as steps of the bundle: as many rows, of as many tokens, as it was compiled for. */
internal fun openData(context: Context, bundle: ModelBundle): TextData {
    val file = File(context.filesDir, "chat.jsonl")
    context.assets.copyFile("chat.jsonl", file)
    val info = bundle.info
    return TextData(file.path, textFolder(context), info.maxSequence, info.maxBatch, folder = context.cacheDir.path)
}
