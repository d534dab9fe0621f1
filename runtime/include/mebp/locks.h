/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders and files that one run has to itself. mebp.h includes this.
 */
#ifndef MEBP_LOCKS_H
#define MEBP_LOCKS_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps a folder of states or of an adapter (made where it is not there), or a file such as a log, to one run: whoever
 * comes second gets MEBP_BUSY. A lock ends with the process at the latest. It lies in the folder, or beside the file.
 */
typedef struct mebp_lock mebp_lock;
mebp_code mebp_lock_folder(const char *folder, mebp_lock **out, mebp_error *error);
mebp_code mebp_lock_file(const char *path, mebp_lock **out, mebp_error *error);
void mebp_lock_release(mebp_lock *lock); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
