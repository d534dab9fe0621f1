// SPDX-License-Identifier: Apache-2.0
package org.mebp.android

import android.content.res.AssetManager
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

private fun <T> AssetManager.withPart(name: String, use: (ModelBundle.Part) -> T): T {
    val descriptor = try {
        openFd(name)
    } catch (failure: FileNotFoundException) {
        throw MebpException(Code.NOT_FOUND, "assets/$name: is not there, or compressed; add its ending to noCompress")
    }
    return descriptor.use { use(ModelBundle.Part(it.parcelFileDescriptor.fd, it.startOffset, it.length)) }
}
