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

static Status countLabels(const format::Model &model, const Tokens &tokens, const int32_t *label, uint64_t &count) {
  for (uint32_t row = 0; row < tokens.batch; ++row)
    for (uint32_t position = 0; position < tokens.sequence; ++position, ++label) {
      if (*label == ignoredLabel)
        continue;
      if (*label < 0 || static_cast<uint32_t>(*label) >= model.vocabulary())
        return failure(MEBP_OUT_OF_RANGE, "label %d at row %u, position %u is neither -100 nor in the vocabulary of %u",
                       *label, row, position, model.vocabulary());
      count += position > 0; // nothing predicts a row's first token
    }
  return Status();
}

static void collectLabels(const Tokens &tokens, int32_t *labels, int32_t *rows) {
  uint64_t found = 0;
  for (uint64_t place = 0; place < static_cast<uint64_t>(tokens.batch) * tokens.sequence; ++place)
    if (place % tokens.sequence != 0 && labels[place] != ignoredLabel) {
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
  if (Status status = checkIds(model, tokens, memory.ids()); !status.ok() || !tokens.labels)
    return status;
  std::memcpy(memory.labels(), tokens.labels, bytes);
  if (Status status = countLabels(model, tokens, memory.labels(), labels); !status.ok())
    return status;
  collectLabels(tokens, memory.labels(), memory.rows());
  return Status();
}

} // namespace mebp
