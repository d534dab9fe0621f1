/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters in the forms of others than PEFT. mebp.h includes this.
 */
#ifndef MEBP_ADAPTERS_H
#define MEBP_ADAPTERS_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* llama.cpp's form: one GGUF file with `blk.N.NAME.weight.lora_a` [rank, in] and `.lora_b` [out, rank] in f32, the
 * bytes that `mebp adapter convert --to gguf` makes of the PEFT folder. Written beside `path` and renamed, so a file
 * there is replaced whole or not at all. MEBP_UNSUPPORTED, with the layer's name, where llama.cpp has no such adapter
 * or the bundle does not say where it has one, as those that older versions of mebp exported. */
mebp_code mebp_session_save_adapter_gguf(const mebp_session *session, const char *path, mebp_error *error);

#ifdef __cplusplus
}
#endif

#endif
