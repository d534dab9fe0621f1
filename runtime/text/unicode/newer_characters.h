// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mebp::text {

// Of characters that Unicode 15, 15.1 and 16 have added, one of Unicode 14 with the same category and as many bytes; 0
// of any other. The Oniguruma of `tokenizers` knows Unicode 16, Debian's PCRE2 14.
char32_t olderCharacter(char32_t character);

} // namespace mebp::text
