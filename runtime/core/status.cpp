// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/status.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "runtime/core/plain_locale.h"

namespace mebp {

Status Status::in(const std::string &place) const { return ok() ? Status() : Status(errorCode, place + ": " + text); }

static std::string lineOf(const char *format, va_list arguments) {
  char line[1024];
  const PlainLocale plain;
  std::vsnprintf(line, sizeof(line), format, arguments);
  return line;
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
    size_t length = std::min(status.message().size(), sizeof(error->message) - 1);
    std::memcpy(error->message, status.message().data(), length);
    error->message[length] = '\0';
    // Names come from files and may hold anything; the promise is one line.
    std::replace_if(error->message, error->message + length, [](char c) { return c == '\n' || c == '\r'; }, ' ');
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
