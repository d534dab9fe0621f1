// SPDX-License-Identifier: Apache-2.0
//
// Where a run's rows come from: a file of tokens, or one of text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The rows of a step, as mebp_session_packed_step takes them.
struct StepRows {
  std::vector<int32_t> ids, labels, starts; // starts are empty where no samples share a row
  uint32_t batch = 0, sequence = 0;
};

class RowSource {
public:
  virtual ~RowSource() = default;

  virtual uint64_t rows() const = 0;
  virtual uint32_t sequence() const = 0; // tokens of a row at most
  // Of everything that is trained on: a run that goes on must see the same.
  virtual uint32_t checksum() const = 0;
  // The rows of a step, counted from 0, that takes `batch` of them. Returns an empty string, or what is wrong.
  virtual std::string read(uint64_t step, uint32_t batch, StepRows &out) = 0;
};
