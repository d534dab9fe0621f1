// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/data/rows.h"

#include <algorithm>

#include "format/container.h"
#include "runtime/text/data/permutation.h"

namespace mebp::text {

static std::string counted(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t place = digits.size(); place > 3; place -= 3)
    digits.insert(place - 3, ",");
  return digits;
}

Result<Rows> Rows::make(Tokens tokens, const RowOptions &options, const std::string &path, int32_t padding) {
  Rows rows;
  rows.tokens = std::move(tokens);
  rows.options = options;
  rows.padding = padding;
  if (Status status = rows.makeSpans(); !status.ok())
    return status;
  const bool isText = rows.tokens.form == Form::Text;
  const char *what = rows.tokens.form == Form::Completion ? "completion" : "assistant";
  if (rows.spans.empty())
    return isText
               ? failure(MEBP_INVALID_ARGUMENT, "%s: has too little text; training needs at least two tokens",
                         path.c_str())
               : failure(MEBP_INVALID_ARGUMENT,
                         "%s: no sample has a token of the %s within %u tokens; shorten the prompts, or compile with "
                         "a longer --seq-len",
                         path.c_str(), what, options.length);
  if (options.areShared && !isText) {
    std::vector<uint32_t> lengths;
    for (const Span &span : rows.spans)
      lengths.push_back(span.length);
    rows.shared = placeSamples(lengths, options.length, options.seed);
    rows.areShared = true;
  }
  if (const uint64_t samples = rows.tokens.bounds.size() - 1; !isText) {
    uint64_t cut = 0;
    for (uint64_t i = 0; i < samples; ++i)
      cut += rows.tokens.bounds[i + 1] - rows.tokens.bounds[i] > options.length;
    if (cut)
      rows.said.push_back(path + ": " + counted(cut) + " of " + counted(samples) + " samples were cut to " +
                          std::to_string(options.length) + " tokens");
    if (rows.spans.size() < samples)
      rows.said.push_back(path + ": " + counted(samples - rows.spans.size()) + " of " + counted(samples) +
                          " samples had no " + what + " token within " + std::to_string(options.length) +
                          " tokens and were left out");
  }
  const uint64_t made = rows.tokens.bounds.size() - 1, conversations = rows.tokens.seen - rows.tokens.leftOut;
  if (rows.tokens.lossOn == LossOn::Turns && made > conversations)
    rows.said.push_back(path + ": " + counted(made) + " samples of " + counted(conversations) +
                        " conversations, one for each turn of the assistant");
  if (rows.tokens.leftOut)
    rows.said.push_back(path + ": " + counted(rows.tokens.leftOut) + " of " + counted(rows.tokens.seen) +
                        " samples are marked as not to be learned");
  if (Status status = rows.computeDigest(); !status.ok())
    return status;
  return rows;
}

Status Rows::makeSpans() {
  if (tokens.form == Form::Text) {
    const uint64_t count = tokens.store.size();
    for (uint64_t begin = 0; begin + 1 < count; begin += options.length) // one token predicts nothing
      spans.push_back({begin, static_cast<uint32_t>(std::min<uint64_t>(options.length, count - begin))});
    return Status();
  }
  std::vector<int32_t> ids(options.length), labels(options.length);
  for (size_t i = 0; i + 1 < tokens.bounds.size(); ++i) {
    const uint64_t begin = tokens.bounds[i], size = tokens.bounds[i + 1] - begin;
    const Span span = {begin, static_cast<uint32_t>(std::min<uint64_t>(options.length, size))};
    if (Status status = tokens.store.read(begin, span.length, ids.data(), labels.data()); !status.ok())
      return status;
    // Nothing predicts the first token.
    if (span.length && std::any_of(labels.begin() + 1, labels.begin() + span.length,
                                   [](int32_t label) { return label != ignoredLabel; }))
      spans.push_back(span);
  }
  return Status();
}

std::vector<uint64_t> Rows::ofStep(uint64_t step, uint32_t perStep) {
  const uint64_t steps = stepsPerEpoch(perStep), epoch = step / steps, begin = step % steps * perStep;
  if (epoch != orderedEpoch) {
    order = permutation({options.seed, epoch}, count());
    orderedEpoch = epoch;
  }
  const uint64_t end = std::min<uint64_t>(begin + perStep, order.size());
  return {order.begin() + static_cast<std::ptrdiff_t>(begin), order.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::vector<Rows::Span> Rows::spansOf(uint64_t row) const {
  if (!areShared)
    return {spans[row]};
  std::vector<Span> found;
  for (uint64_t i = shared.bounds[row]; i < shared.bounds[row + 1]; ++i)
    found.push_back(spans[shared.members[i]]);
  return found;
}

uint32_t Rows::lengthOf(uint64_t row) const {
  uint32_t length = 0;
  for (const Span &span : spansOf(row))
    length += span.length;
  return length;
}

Result<uint32_t> Rows::write(const std::vector<uint64_t> &chosen, int32_t *ids, int32_t *labels,
                             int32_t *starts) const {
  uint32_t width = 0;
  for (uint64_t row : chosen)
    width = std::max(width, lengthOf(row));
  for (size_t i = 0; i < chosen.size(); ++i) {
    const size_t first = i * width;
    uint32_t place = 0;
    for (const Span &span : spansOf(chosen[i])) {
      if (Status status = tokens.store.read(span.begin, span.length, ids + first + place, labels + first + place);
          !status.ok())
        return status;
      if (areShared) {
        labels[first + place] = ignoredLabel; // which nothing predicts
        std::fill_n(starts + first + place, span.length, static_cast<int32_t>(place));
      }
      place += span.length;
    }
    std::fill_n(ids + first + place, width - place, padding);
    std::fill_n(labels + first + place, width - place, ignoredLabel);
    if (areShared) // a sample of its own
      std::fill_n(starts + first + place, width - place, static_cast<int32_t>(place));
  }
  return width;
}

Status Rows::computeDigest() {
  std::vector<int32_t> ids(options.length), labels(options.length), starts(options.length);
  for (uint64_t row = 0; row < count(); ++row) {
    Result<uint32_t> width = write({row}, ids.data(), labels.data(), starts.data());
    if (!width.ok())
      return width.status();
    for (const std::vector<int32_t> *each : {&ids, &labels, &starts})
      if (each != &starts || areShared)
        digest = format::crc32(each->data(), *width * sizeof(int32_t), digest);
  }
  return Status();
}

} // namespace mebp::text
