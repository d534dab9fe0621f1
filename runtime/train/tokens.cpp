// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/tokens.h"

#include <algorithm>
#include <cstring>

#include "format/lookup.h"

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

// A sample ends where the next one starts.
static void findEnds(const Tokens &tokens, const int32_t *starts, int32_t *ends) {
  for (uint32_t row = 0; row < tokens.batch; ++row, starts += tokens.sequence, ends += tokens.sequence) {
    auto end = static_cast<int32_t>(tokens.sequence);
    for (uint32_t position = tokens.sequence; position-- > 0;) {
      ends[position] = end;
      if (starts[position] == static_cast<int32_t>(position))
        end = starts[position];
    }
  }
}

static Status takeStarts(const Tokens &tokens, const BatchMemory &memory, uint64_t bytes) {
  int32_t *starts = memory.starts();
  if (!starts && tokens.starts)
    return failure(MEBP_UNSUPPORTED, "the bundle cannot take several samples in a row; compile it with --packing");
  if (!starts)
    return Status();
  if (tokens.starts)
    std::memcpy(starts, tokens.starts, bytes);
  else
    std::memset(starts, 0, bytes);
  if (Status status = tokens.starts ? checkStarts(tokens, starts) : Status(); !status.ok())
    return status;
  if (memory.ends())
    findEnds(tokens, starts, memory.ends());
  return Status();
}

// What rows predict: every label, or of next tokens all but a sample's first.
class Predicted {
public:
  Predicted(const format::Model &model, const Tokens &tokens, const BatchMemory &memory)
      : distance(labelDistance(model)), sequence(tokens.sequence), starts(memory.starts()) {}

  bool has(uint64_t place) const {
    const uint64_t start = starts ? static_cast<uint64_t>(starts[place]) : 0;
    return distance == 0 || place % sequence != start;
  }
  int32_t rowOf(uint64_t place) const { return static_cast<int32_t>(place - distance); }

private:
  uint32_t distance, sequence;
  const int32_t *starts;
};

static Status wrongLabel(const format::Model &model, int32_t label, uint32_t row, uint32_t position) {
  if (!model.classes_size())
    return failure(MEBP_OUT_OF_RANGE, "label %d at row %u, position %u is neither -100 nor in the vocabulary of %u",
                   label, row, position, model.vocabulary());
  return failure(MEBP_OUT_OF_RANGE, "label %d at row %u, position %u is neither -100 nor one of the %d classes", label,
                 row, position, model.classes_size());
}

static Status countLabels(const format::Model &model, const Tokens &tokens, const BatchMemory &memory,
                          uint64_t &count) {
  const Predicted predicted(model, tokens, memory);
  const int32_t *label = memory.labels();
  uint64_t place = 0;
  for (uint32_t row = 0; row < tokens.batch; ++row)
    for (uint32_t position = 0; position < tokens.sequence; ++position, ++place, ++label) {
      if (*label == ignoredLabel)
        continue;
      if (*label < 0 || static_cast<uint32_t>(*label) >= outputsOf(model))
        return wrongLabel(model, *label, row, position);
      count += predicted.has(place);
    }
  return Status();
}

static void collectLabels(const format::Model &model, const Tokens &tokens, const BatchMemory &memory) {
  const Predicted predicted(model, tokens, memory);
  int32_t *labels = memory.labels(), *rows = memory.rows();
  uint64_t found = 0;
  for (uint64_t place = 0; place < static_cast<uint64_t>(tokens.batch) * tokens.sequence; ++place)
    if (predicted.has(place) && labels[place] != ignoredLabel) {
      rows[found] = predicted.rowOf(place);
      labels[found++] = labels[place];
    }
}

// What stands behind an item's last label is padding, and stays zero.
static void markCounted(const Tokens &tokens, const int32_t *labels, float *counted) {
  for (uint32_t row = 0; row < tokens.batch; ++row, labels += tokens.sequence, counted += tokens.sequence) {
    uint32_t end = tokens.sequence;
    while (end > 0 && labels[end - 1] == ignoredLabel)
      --end;
    std::fill_n(counted, end, 1.0f);
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
  if (memory.counted())
    std::memset(memory.counted(), 0, bytes);
  if (Status status = takeStarts(tokens, memory, bytes); !status.ok() || !tokens.labels)
    return status;
  std::memcpy(memory.labels(), tokens.labels, bytes);
  if (memory.counted())
    markCounted(tokens, memory.labels(), memory.counted());
  if (Status status = countLabels(model, tokens, memory, labels); !status.ok())
    return status;
  collectLabels(model, tokens, memory);
  return Status();
}

} // namespace mebp
