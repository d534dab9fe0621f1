// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/text/tokenizer/fields.h"

namespace mebp::text {

// A character that stands for a space, of a pre-tokenizer and of a decoder.
struct Metaspace {
  enum Scheme { always, first, never };
  std::string replacement;
  Scheme scheme = always; // which pieces get one in front
  bool splits = true;
};

inline Metaspace readMetaspace(Fields &fields) {
  Metaspace read;
  read.replacement = fields.character("replacement", "\xE2\x96\x81");
  read.splits = fields.flag("split", true);
  fields.text("str_rep", "");                                  // of older files, the replacement again
  const bool prefixes = fields.flag("add_prefix_space", true); // of older files, beside which there is no scheme
  const std::string scheme = fields.text("prepend_scheme", prefixes ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    fields.refuse("prepend_scheme '" + scheme + "'");
  read.scheme = scheme == "first" ? Metaspace::first : scheme == "never" ? Metaspace::never : Metaspace::always;
  return read;
}

} // namespace mebp::text
