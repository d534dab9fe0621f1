// SPDX-License-Identifier: Apache-2.0
//
// Tokens of samples as rows of up to one length, and which of them a step takes: those of `mebp train` with the same
// options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/status.h"
#include "runtime/text/data/places.h"
#include "runtime/text/data/tokens.h"

namespace mebp::text {

struct RowOptions {
  uint32_t length = 0;    // tokens of a row at most
  bool areShared = false; // samples stand side by side; text is cut into rows in any case
  uint64_t seed = 0;      // of where samples stand, and of the order in which rows come
};

class Rows {
public:
  // Cuts samples that are longer, and leaves out those in which nothing to learn remains. `path`: for messages.
  static Result<Rows> make(Tokens tokens, const RowOptions &options, const std::string &path, int32_t padding);

  uint64_t count() const { return areShared ? shared.bounds.size() - 1 : spans.size(); }
  bool haveStarts() const { return areShared; }
  uint32_t longest() const { return options.length; }
  // Of everything that is trained on.
  uint32_t checksum() const { return digest; }
  // What was cut or left out, a line each.
  const std::vector<std::string> &notes() const { return said; }

  // The numbers of the rows of a step, counted from 0, of which each takes `perStep`: the last step of an epoch may
  // have fewer.
  std::vector<uint64_t> ofStep(uint64_t step, uint32_t perStep);
  uint64_t stepsPerEpoch(uint32_t perStep) const { return (count() + perStep - 1) / perStep; }
  // Ids, labels and, where samples share rows, starts of these rows, filled up to the longest of them, whose length is
  // returned: each has room for chosen.size() * longest().
  Result<uint32_t> write(const std::vector<uint64_t> &chosen, int32_t *ids, int32_t *labels, int32_t *starts) const;

private:
  struct Span {
    uint64_t begin = 0;
    uint32_t length = 0;
  };
  Status makeSpans();
  uint32_t lengthOf(uint64_t row) const;
  std::vector<Span> spansOf(uint64_t row) const;
  Status computeDigest();

  Tokens tokens;
  RowOptions options;
  int32_t padding = 0;
  std::vector<Span> spans; // samples, or rows of text
  SharedRows shared;
  bool areShared = false;
  uint32_t digest = 0;
  std::vector<std::string> said;
  std::vector<uint64_t> order; // of the epoch that was asked for last
  uint64_t orderedEpoch = UINT64_MAX;
};

} // namespace mebp::text
