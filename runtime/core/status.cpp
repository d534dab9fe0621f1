// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "format/readable.h"
#include "runtime/core/plain_locale.h"

namespace mebp {

Status::Status(mebp_code code, const std::string &message) : errorCode(code), text(format::readable(message)) {}

Status Status::in(const std::string &place) const { return ok() ? Status() : Status(errorCode, place + ": " + text); }

static std::string lineOf(const char *format, va_list arguments) {
  constexpr size_t longest = 1023;
  char line[longest + 2]; // one more, which says whether the cut is within a character
  const PlainLocale plain;
  std::vsnprintf(line, sizeof(line), format, arguments);
  return format::readable(format::cutText(line, longest));
}

std::string textOf(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string line = lineOf(format, arguments);
  va_end(arguments);
  return line;
}

Status failure(mebp_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Status status(code, lineOf(format, arguments));
  va_end(arguments);
  return status;
}

mebp_code report(const Status &status, mebp_error *error) {
  if (error) {
    error->code = status.code();
    format::writeText(status.message(), error->message);
  }
  return status.code();
}

mebp_code reportOutOfMemory(mebp_error *error) {
  if (error) {
    error->code = MEBP_OUT_OF_MEMORY;
    std::strcpy(error->message, "the system has no memory left for this; close other programs or use a smaller model");
  }
  return MEBP_OUT_OF_MEMORY;
}

} // namespace mebp
