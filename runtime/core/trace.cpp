// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/trace.h"

#include <cerrno>
#include <cinttypes>

#include "runtime/core/files.h"
#include "runtime/core/system_failure.h"

namespace mebp {

// In microseconds, to the nanosecond, with a point in every locale.
static void writeTime(std::FILE *file, int64_t nanoseconds) {
  std::fprintf(file, "%" PRId64 ".%03" PRId64, nanoseconds / 1000, nanoseconds % 1000);
}
static void writeTime(std::FILE *file, Trace::Time from, Trace::Time to) {
  writeTime(file, std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
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
  constexpr size_t bytes = 1 << 16;
  buffer.reset(new char[bytes]);
  std::setvbuf(file, buffer.get(), _IOFBF, bytes);
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

void Trace::write(const Work &work) {
  std::fprintf(file, ", \"flops\": %.0f, \"bytes\": %.0f, \"rounds\": %" PRIu64 ", \"fewest_tasks\": %" PRIu64,
               work.flops, work.bytes, work.rounds, work.fewestTasks);
  std::fputs(", \"threads\": [", file);
  for (size_t thread = 0; thread < work.threadCount; ++thread) {
    const ThreadShare &share = work.threads[thread];
    std::fprintf(file, "%s{\"tasks\": %" PRIu64 ", \"busy_us\": ", thread ? ", " : "", share.tasks);
    writeTime(file, share.busy);
    std::fputs(", \"waiting_us\": ", file);
    writeTime(file, share.waiting);
    std::fputc('}', file);
  }
  std::fputc(']', file);
}

void Trace::span(const char *name, const char *category, const char *source, Time begin, const Work *work) {
  Time end = now();
  std::fputs(first ? "\n{\"name\": " : ",\n{\"name\": ", file);
  first = false;
  text(name);
  std::fputs(", \"cat\": ", file);
  text(category);
  std::fputs(", \"args\": {\"source\": ", file);
  text(source);
  if (work)
    write(*work);
  std::fputs("}, \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": ", file);
  writeTime(file, start, begin);
  std::fputs(", \"dur\": ", file);
  writeTime(file, begin, end);
  std::fputc('}', file);
}

} // namespace mebp
