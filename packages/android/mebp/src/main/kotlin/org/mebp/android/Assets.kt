// SPDX-License-Identifier: Apache-2.0
package org.mebp.android

import android.content.res.AssetManager
import java.io.File
import java.io.FileNotFoundException
import org.mebp.Code
import org.mebp.MebpException
import org.mebp.ModelBundle

/**
 * Opens the bundle whose files are in [folder] of the assets, where they lie: the weights are mapped from the package
 * and never copied. So the package must not compress them (`androidResources { noCompress += listOf("pb", "json", "bin") }`).
 */
fun ModelBundle.Companion.open(assets: AssetManager, folder: String): ModelBundle =
    assets.withPart("$folder/program.pb") { program ->
        assets.withPart("$folder/manifest.json") { manifest ->
            assets.withPart("$folder/weights.bin") { weights -> open(program, manifest, weights) }
        }
    }

/**
 * Copies what text needs of the bundle in [folder] of the assets, all but its program and weights, to [target], whole
 * or not at all. A Tokenizer, a ChatTemplate and a TextData open the folder that it returns.
 */
fun AssetManager.copyText(folder: String, target: File): String {
    val part = File("${target.path}.part").apply { deleteRecursively() }
    for (name in listOf("manifest.json") + list("$folder/tokenizer").orEmpty().map { "tokenizer/$it" }) {
        copyFile("$folder/$name", File(part, name))
    }
    target.deleteRecursively()
    if (!part.renameTo(target)) throw MebpException(Code.IO, "$target: cannot be written; give a folder of this app")
    return target.path
}

/** Copies an asset to a file whose folder is made where it is not there. */
fun AssetManager.copyFile(name: String, file: File) {
    file.parentFile?.mkdirs()
    open(name).use { from -> file.outputStream().use { from.copyTo(it) } }
}

private fun <T> AssetManager.withPart(name: String, use: (ModelBundle.Part) -> T): T {
    val descriptor = try {
        openFd(name)
    } catch (failure: FileNotFoundException) {
        throw MebpException(Code.NOT_FOUND, "assets/$name: is not there, or compressed; add its ending to noCompress")
    }
    return descriptor.use { use(ModelBundle.Part(it.parcelFileDescriptor.fd, it.startOffset, it.length)) }
}
