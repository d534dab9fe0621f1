// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/tokens.h"

#include <cstring>

namespace mebp {

constexpr int32_t ignoredLabel = -100;

static Status checkShape(const format::Model &model, const Tokens &tokens) {
  if (tokens.batch == 0 || tokens.sequence == 0)
    return failure(MEBP_INVALID_ARGUMENT, "a step needs at least one token, not %u x %u", tokens.batch,
                   tokens.sequence);
  if (tokens.sequence > model.sequence())
    return failure(MEBP_OUT_OF_RANGE,
                   "%u tokens are more than the %u that the bundle was compiled for; "
                   "shorten them or compile with --seq-len %u",
                   tokens.sequence, model.sequence(), tokens.sequence);
  if (tokens.batch > model.batch())
    return failure(MEBP_OUT_OF_RANGE,
                   "a batch of %u is more than the %u that the bundle was compiled for; "
                   "compile with --batch %u",
                   tokens.batch, model.batch(), tokens.batch);
  return Status();
}

static Status checkIds(const format::Model &model, const Tokens &tokens, const int32_t *ids) {
  uint64_t count = static_cast<uint64_t>(tokens.batch) * tokens.sequence;
  for (uint64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= model.vocabulary())
      return failure(MEBP_OUT_OF_RANGE, "token %d at row %llu, position %llu is beyond the vocabulary of %u", ids[i],
                     static_cast<unsigned long long>(i / tokens.sequence),
                     static_cast<unsigned long long>(i % tokens.sequence), model.vocabulary());
  return Status();
}

// A sample's tokens follow each other, and say where it starts.
static Status checkStarts(const Tokens &tokens, const int32_t *starts) {
  for (uint32_t row = 0; row < tokens.batch; ++row, starts += tokens.sequence)
    for (uint32_t position = 0; position < tokens.sequence; ++position) {
      const int64_t start = starts[position], before = position > 0 ? starts[position - 1] : 0;
      if (start != position && (position == 0 || start != before))
        return failure(MEBP_INVALID_ARGUMENT,
                       "starts at row %u, position %u is %lld; a sample starts there (%u) or goes on (%lld)", row,
                       position, static_cast<long long>(start), position, static_cast<long long>(before));
    }
  return Status();
}

static Status takeStarts(const Tokens &tokens, int32_t *starts, uint64_t bytes) {
  if (!starts && tokens.starts)
    return failure(MEBP_UNSUPPORTED, "the bundle cannot take several samples in a row; compile it with --packing");
  if (!starts)
    return Status();
  if (!tokens.starts) {
    std::memset(starts, 0, bytes);
    return Status();
  }
  std::memcpy(starts, tokens.starts, bytes);
  return checkStarts(tokens, starts);
}

// Nothing predicts a sample's first token.
static bool isFirst(const int32_t *starts, uint64_t place, uint32_t sequence) {
  const uint64_t start = starts ? static_cast<uint64_t>(starts[place]) : 0;
  return place % sequence == start;
}

static Status countLabels(const format::Model &model, const Tokens &tokens, const BatchMemory &memory,
                          uint64_t &count) {
  const int32_t *label = memory.labels();
  uint64_t place = 0;
  for (uint32_t row = 0; row < tokens.batch; ++row)
    for (uint32_t position = 0; position < tokens.sequence; ++position, ++place, ++label) {
      if (*label == ignoredLabel)
        continue;
      if (*label < 0 || static_cast<uint32_t>(*label) >= model.vocabulary())
        return failure(MEBP_OUT_OF_RANGE, "label %d at row %u, position %u is neither -100 nor in the vocabulary of %u",
                       *label, row, position, model.vocabulary());
      count += !isFirst(memory.starts(), place, tokens.sequence);
    }
  return Status();
}

static void collectLabels(const Tokens &tokens, const BatchMemory &memory) {
  int32_t *labels = memory.labels(), *rows = memory.rows();
  uint64_t found = 0;
  for (uint64_t place = 0; place < static_cast<uint64_t>(tokens.batch) * tokens.sequence; ++place)
    if (!isFirst(memory.starts(), place, tokens.sequence) && labels[place] != ignoredLabel) {
      rows[found] = static_cast<int32_t>(place - 1);
      labels[found++] = labels[place];
    }
}

Status takeBatch(const format::Model &model, const Tokens &tokens, const BatchMemory &memory, uint64_t &labels) {
  labels = 0;
  if (Status status = checkShape(model, tokens); !status.ok())
    return status;
  uint64_t bytes = static_cast<uint64_t>(tokens.batch) * tokens.sequence * sizeof(int32_t);
  std::memcpy(memory.ids(), tokens.ids, bytes);
  if (Status status = checkIds(model, tokens, memory.ids()); !status.ok())
    return status;
  if (Status status = takeStarts(tokens, memory.starts(), bytes); !status.ok() || !tokens.labels)
    return status;
  std::memcpy(memory.labels(), tokens.labels, bytes);
  if (Status status = countLabels(model, tokens, memory, labels); !status.ok())
    return status;
  collectLabels(tokens, memory);
  return Status();
}

} // namespace mebp
