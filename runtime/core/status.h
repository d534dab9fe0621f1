// SPDX-License-Identifier: Apache-2.0
//
// How the runtime reports failure inside: a code of mebp.h and one readable line. The C API turns it into mebp_error.
#pragma once

#include <cassert>
#include <string>
#include <utility>

#include "mebp/mebp.h"

namespace mebp {

class [[nodiscard]] Status {
public:
  Status() = default;
  // Whatever the message has of others' words is shown as format/readable.h has it.
  Status(mebp_code code, const std::string &message);

  bool ok() const { return errorCode == MEBP_OK; }
  mebp_code code() const { return errorCode; }
  const std::string &message() const { return text; }
  // The same failure, with the name of the thing that it happened in before it.
  Status in(const std::string &place) const;

private:
  mebp_code errorCode = MEBP_OK;
  std::string text;
};

// One readable line for people, in whatever locale with a point in its numbers.
[[gnu::format(printf, 1, 2)]] std::string textOf(const char *format, ...);
[[gnu::format(printf, 2, 3)]] Status failure(mebp_code code, const char *format, ...);

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)) {}
  Result(Status status) : failed(std::move(status)) { assert(!failed.ok()); }

  bool ok() const { return failed.ok(); }
  const Status &status() const { return failed; }
  T &operator*() { return content; }
  T *operator->() { return &content; }

private:
  Status failed;
  T content{};
};

// Fills in `error` where the caller gave one, and returns the code: the last line of every C function.
mebp_code report(const Status &status, mebp_error *error);
// The same where there is no memory for a message.
mebp_code reportOutOfMemory(mebp_error *error);

} // namespace mebp
