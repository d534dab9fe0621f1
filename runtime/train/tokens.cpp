// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/tokens.h"

namespace mebp {

constexpr int32_t ignoredLabel = -100;

Status checkIds(const format::Model &model, const Tokens &tokens) {
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
  uint64_t count = static_cast<uint64_t>(tokens.batch) * tokens.sequence;
  for (uint64_t i = 0; i < count; ++i)
    if (tokens.ids[i] < 0 || static_cast<uint32_t>(tokens.ids[i]) >= model.vocabulary())
      return failure(MEBP_OUT_OF_RANGE, "token %d at row %llu, position %llu is beyond the vocabulary of %u",
                     tokens.ids[i], static_cast<unsigned long long>(i / tokens.sequence),
                     static_cast<unsigned long long>(i % tokens.sequence), model.vocabulary());
  return Status();
}

Status countLabels(const format::Model &model, const Tokens &tokens, uint64_t &count) {
  count = 0;
  const int32_t *label = tokens.labels;
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

Status checkBatches(const format::Model &model, const Tokens *batches, uint32_t count, uint64_t &labels) {
  labels = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t counted = 0;
    Status status = checkIds(model, batches[i]);
    if (status.ok())
      status = countLabels(model, batches[i], counted);
    if (!status.ok())
      return count == 1 ? status : status.in("micro-batch " + std::to_string(i));
    labels += counted;
  }
  if (labels == 0)
    return failure(MEBP_INVALID_ARGUMENT,
                   "no label counts: all are -100, or stand at a row's first position, which nothing predicts");
  return Status();
}

uint64_t shiftLabels(const Tokens &tokens, int32_t *shifted) {
  uint64_t count = 0;
  const int32_t *label = tokens.labels;
  for (uint32_t row = 0; row < tokens.batch; ++row)
    for (uint32_t position = 0; position < tokens.sequence; ++position, ++label, ++shifted) {
      *shifted = position + 1 < tokens.sequence ? label[1] : ignoredLabel;
      count += *shifted != ignoredLabel;
    }
  return count;
}

} // namespace mebp
