// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/trace.h"

#include <cerrno>

#include "runtime/core/files.h"

namespace mebp {

static double microseconds(Trace::Time from, Trace::Time to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

Trace::~Trace() {
  if (!file)
    return;
  std::fputs("\n]\n", file);
  std::fclose(file);
}

Status Trace::open(const std::string &path) {
  file = std::fopen(path.c_str(), "we");
  if (!file)
    return systemFailure(path, "open for writing", errno);
  std::setvbuf(file, buffer, _IOFBF, sizeof(buffer));
  std::fputs("[", file);
  start = now();
  return Status();
}

// Names come from a model's graph: what JSON would take for something else is left out.
void Trace::text(const char *value) {
  std::fputc('"', file);
  for (; *value; ++value)
    if (*value != '"' && *value != '\\' && static_cast<unsigned char>(*value) >= ' ')
      std::fputc(*value, file);
  std::fputc('"', file);
}

void Trace::span(const char *name, const char *category, const char *source, Time begin) {
  Time end = now();
  std::fputs(first ? "\n{\"name\": " : ",\n{\"name\": ", file);
  first = false;
  text(name);
  std::fputs(", \"cat\": ", file);
  text(category);
  std::fputs(", \"args\": {\"source\": ", file);
  text(source);
  std::fprintf(file, "}, \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f}",
               microseconds(start, begin), microseconds(begin, end));
}

} // namespace mebp
