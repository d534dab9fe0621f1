// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/memory_check.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "format/lookup.h"
#include "format/readable.h"

namespace mebp {

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
static void forbid(void *memory, uint64_t bytes) { ASAN_POISON_MEMORY_REGION(memory, bytes); }
static void allow(void *memory, uint64_t bytes) { ASAN_UNPOISON_MEMORY_REGION(memory, bytes); }
#else
static void forbid(void *, uint64_t) {}
static void allow(void *, uint64_t) {}
#endif

constexpr unsigned char notANumber = 0xff; // in each byte of an f32, a bf16 or an f16

Result<MemoryCheck> MemoryCheck::make(bool followsPlacements) {
  MemoryCheck check;
  const char *named = std::getenv("MEBP_CHECK_MEMORY");
  const std::string_view kind = named ? named : "";
  check.apart = kind == "apart";
  const bool isKnown = kind == "fill" || check.apart;
  check.fills = isKnown && followsPlacements;
  if (!kind.empty() && !isKnown)
    return failure(MEBP_INVALID_ARGUMENT, "MEBP_CHECK_MEMORY=%s is no check; give fill or apart, or leave it out",
                   format::readable(named).c_str());
  return check;
}

void MemoryCheck::clear(void *memory, uint64_t bytes) const {
  if (fills)
    std::memset(memory, notANumber, bytes);
}

void MemoryCheck::beginProgram(const format::Program &program, const Run &run, const Buffers &buffers) const {
  if (!fills)
    return;
  if (program.arena_bytes()) {
    allow(buffers.hostOf(run.arena), program.arena_bytes());
    clear(buffers.hostOf(run.arena), program.arena_bytes()); // of the one before
  }
  const Binding *first = run.bindings, *firstOutput = first + program.inputs_size();
  for (int i = 0; i < program.outputs_size(); ++i) {
    const Place output = firstOutput[i].data;
    auto liesThere = [&](const Binding &input) {
      return input.data.buffer == output.buffer && input.data.offset == output.offset;
    };
    void *memory = buffers.hostOf(output); // null: the caller's
    if (!memory || std::any_of(first, firstOutput, liesThere))
      continue;
    const format::Value &value = valueOf(program, program.outputs(i));
    const bool isOfTokens = value.row_extent().kind() == format::Extent::TOKENS;
    const uint64_t live = uint64_t(run.batch) * run.sequence;
    clear(memory, (isOfTokens ? std::min<uint64_t>(live, value.rows()) : value.rows()) * rowBytesOf(value));
  }
}

void MemoryCheck::endProgram(const format::Program &program, const Run &run, const Buffers &buffers) const {
  if (!fills || !program.arena_bytes())
    return;
  clear(buffers.hostOf(run.arena), program.arena_bytes());
  forbid(buffers.hostOf(run.arena), program.arena_bytes());
}

void MemoryCheck::giveBack(void *memory, uint64_t bytes) const {
  if (fills)
    allow(memory, bytes);
}

} // namespace mebp
