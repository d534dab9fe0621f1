// SPDX-License-Identifier: Apache-2.0
//
// Apart, so that a library beside this one takes no more of it than it needs.
#include "mebp/mebp.h"

#define MEBP_TEXT_OF(number) #number
#define MEBP_VERSION_TEXT(major, minor, patch) MEBP_TEXT_OF(major) "." MEBP_TEXT_OF(minor) "." MEBP_TEXT_OF(patch)

const char *mebp_version(void) { return MEBP_VERSION_TEXT(MEBP_VERSION_MAJOR, MEBP_VERSION_MINOR, MEBP_VERSION_PATCH); }
