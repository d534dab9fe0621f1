// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <locale.h>

namespace mebp {

// While it lives, this thread writes and reads numbers with a point, whatever locale the host program has chosen.
class PlainLocale {
public:
  PlainLocale() : chosen(plain() ? ::uselocale(plain()) : nullptr) {}
  PlainLocale(const PlainLocale &) = delete;
  PlainLocale &operator=(const PlainLocale &) = delete;
  ~PlainLocale() {
    if (plain())
      ::uselocale(chosen);
  }

private:
  static locale_t plain() {
    static const locale_t made = ::newlocale(LC_ALL_MASK, "C", nullptr);
    return made;
  }

  locale_t chosen;
};

} // namespace mebp
