/* SPDX-License-Identifier: Apache-2.0 */
#include <mebp/chat.h>
#include <mebp/data.h>
#include <mebp/mebp.h>
#include <mebp/tokenizer.h>
