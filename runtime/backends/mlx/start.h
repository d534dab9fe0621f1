// SPDX-License-Identifier: Apache-2.0
//
// Where something begins: a number that a graph is made for, or one that each run of it is given.
#pragma once

#include <algorithm>
#include <optional>

#include <mlx/array.h>
#include <mlx/ops.h>

namespace mebp::mlx {

using ::mlx::core::array;

struct Start {
  int number = 0;
  std::optional<array> given = std::nullopt; // an I32 scalar; then `number` says nothing

  bool isKnown() const { return !given; }
  array node() const { return given ? *given : array(number); }

  Start operator+(int more) const { return given ? Start{0, *given + array(more)} : Start{number + more}; }
  Start operator+(const Start &other) const {
    if (other.isKnown())
      return *this + other.number;
    return isKnown() ? other + number : Start{0, *given + *other.given};
  }
  Start operator-(const Start &other) const {
    return isKnown() && other.isKnown() ? Start{number - other.number} : Start{0, node() - other.node()};
  }
  Start operator%(int divisor) const {
    return given ? Start{0, ::mlx::core::remainder(*given, array(divisor))} : Start{number % divisor};
  }
  Start clamped(int least, int most) const {
    return {std::min(std::max(number, least), most),
            given ? std::optional(::mlx::core::clip(*given, array(least), array(most))) : std::nullopt};
  }
};

// [first, first + count)
inline array range(const Start &first, int count) {
  if (first.isKnown())
    return ::mlx::core::arange(first.number, first.number + count);
  return ::mlx::core::arange(count) + *first.given;
}

} // namespace mebp::mlx
