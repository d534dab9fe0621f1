// SPDX-License-Identifier: Apache-2.0
//
// Runs kernels on owned values and compares families. A test describes a call once; `expectAgreement` runs it with the
// reference and with the vector kernels, on one thread and on more, sharing memory or not.
#pragma once

#include "runtime/backends/cpu/choice.h"
#include "runtime/backends/cpu/kernel/kernel.h"
#include "runtime/backends/self_test/activations.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mebp::cpu::test {

using mebp::Activation;
using mebp::Attributes;

// A matrix with its memory. Activations have a stride wider than their columns, and `guard` in between, which no
// kernel may touch.
class Value {
public:
  static constexpr float guard = 12352.0f; // exact in bf16

  Value() = default; // an absent optional operand
  // Standard normal numbers.
  static Value random(int64_t rows, int64_t columns, uint32_t seed, float deviation = 1.0f);
  static Value constant(int64_t rows, int64_t columns, float value);
  static Value weight(int64_t rows, int64_t columns, Storage storage, uint32_t seed, int32_t group = 32);
  static Value integers(const std::vector<int32_t> &values); // [n, 1]

  Value at(int64_t firstRow) const;    // the same values as a chunk that starts at this token row
  Value stored(Storage storage) const; // an activation's numbers in the other storage, rounded where that is BF16
  Value dequantised() const;           // a weight's numbers in F32
  Tensor tensor();
  float &element(int64_t row, int64_t column) { return floats[row * shape.stride + column]; } // of F32
  std::vector<float> elements() const;                                                        // without the guards
  bool guarded() const; // the guards are as they were
  Value rows(int64_t first, int64_t count) const;

  Tensor shape;

private:
  std::vector<float> floats;
  std::vector<int32_t> ints;
  std::vector<uint16_t> halves; // BF16
  std::vector<uint8_t> bytes;
  std::vector<uint16_t> scales, minima;
};

struct CallSpec {
  std::string name;
  std::vector<Value> operands;
  std::vector<Value> results; // of the right shapes
  Attributes attributes = {};
  int64_t sequence = 1;
  std::vector<int> shared = {}; // for each result the operand whose memory it has, or -1; missing means -1
  int64_t position = 0;         // of each sequence's first token
  bool isDecoding = false;
  mebp::Dropout dropout = {};
};

// What a kernel reads of these attributes.
Attributes attributesOf(const self_test::TriedActivation &activation);

// The results of one run; `products` instead of those that the set has.
std::vector<Value> run(CallSpec spec, InstructionSet set, int threads = 1, const Bf16Products *products = nullptr);

// Vector agrees with the reference to `tolerance`, relative to each result's largest element, or to `scale` where that
// is larger (for results that should be zero), with every instruction set of this machine; 2 and 3 threads agree
// bitwise with one. So it is with activations in F32 and in mixtures of F32 and BF16, where either family gives bitwise
// what it gives in F32 for the same numbers, rounded once. So the families may differ by one step of bf16, where a
// boundary of the rounding lies between them, and by no more. Where a family may round the factors of a product, it
// agrees with the reference on rounded factors.
void expectAgreement(const CallSpec &spec, double tolerance = 2e-6, double scale = 0);

// dL/d(operand) where L = sum of results[0] * cotangent, by central differences of the reference kernel.
std::vector<float> numericGradient(const CallSpec &forward, size_t operand, const Value &cotangent);
// Largest difference, relative to the largest expected element or to `scale`.
double distance(const std::vector<float> &actual, const std::vector<float> &expected, double scale = 0);

} // namespace mebp::cpu::test
