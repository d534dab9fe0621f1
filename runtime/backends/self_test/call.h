// SPDX-License-Identifier: Apache-2.0
//
// A program of a single kernel call, by which a kernel is tried or timed alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/program.pb.h"

namespace mebp::self_test {

struct Matrix {
  uint64_t rows = 0, columns = 0; // no rows: absent
  format::ElementType element = format::F32;
  bool positive = false;     // of labels: every fourth one does not count
  bool isActivation = false; // may be stored in bf16
  int accumulates = -1;      // of a result: the operand that it must share memory with
  bool isUnread = false;     // of a result: nobody asks for it
  int64_t sampleLength = 0;  // of starts: the tokens of each sample in an item; 0: it is none
  bool isEnd = false;        // of ends, instead
  float scale = 1;           // of its numbers, where others would grow from row to row
  uint64_t below = 0;        // of experts' numbers: how many there are. A row has each at most once.
};

struct Attribute {
  const char *name;
  double number = 0;
  std::vector<float> numbers = {};
  const char *text = "";
};

struct Call {
  std::string kernel;
  std::vector<Matrix> operands, results;
  std::vector<Attribute> attributes = {};
  int64_t batch = 1, sequence = 1, position = 0; // of the step that it is made in
  uint64_t vocabulary = 1;                       // ids and labels are below
};

// With the activations in bf16.
Call inBf16(Call call);
bool isInBf16(const Call &call);

// "linear(1x1056 f32, 96x1056 int4)"
std::string describe(const Call &call);

// It makes the call so many times, each with inputs and outputs of its own.
format::Program programOf(const Call &call, size_t copies = 1);

} // namespace mebp::self_test
