// SPDX-License-Identifier: Apache-2.0
//
// docs/kernels.md as a table: what each kernel may be given, so that no kernel ever has to check.
#pragma once

#include <cstdint>
#include <string>

#include "format/program.pb.h"
#include "runtime/backends/cpu/kernel.h"
#include "runtime/core/status.h"

namespace mebp {

enum class SlotType : uint8_t {
  Float,  // f32 or bf16
  Exact,  // f32
  Weight, // f32, bf16 or quantised
  Ids,    // i32 below the vocabulary
  Labels, // i32 below the vocabulary, or -100
};

constexpr int notAccumulated = -1;

// One operand or result. Its shape is two characters: 1, or a letter for a dimension that is the same wherever the
// letter stands. Some letters say more: V covers the vocabulary, P every position, S is all tokens of the step.
struct Slot {
  const char *name = nullptr;
  const char *shape = nullptr;
  SlotType type = SlotType::Float;
  bool optional = false;
  int accumulates = notAccumulated; // the result that must share this operand's memory
};

// What shapes alone do not say. Dimensions are looked up by their letter.
struct KernelShape {
  const format::Kernel &kernel;
  const cpu::Attributes &attributes;
  int64_t counts[128] = {};

  bool hasOperand(int index) const { return index < kernel.operands_size() && kernel.operands(index) >= 0; }
  int64_t operator[](char letter) const { return counts[static_cast<unsigned char>(letter)]; }
};

constexpr size_t maximumSlots = 8;

// Kernels that cut a matrix [N,F] into its columns or join them: which side has any number of parts.
enum class Parts : uint8_t { None, Operands, Results };

struct Signature {
  const char *name;
  Slot operands[maximumSlots];
  Slot results[maximumSlots];
  Status (*check)(const KernelShape &) = nullptr;
  bool tokenRows = false; // N must be rows of tokens: the kernel asks for their positions
  Parts parts = Parts::None;
  bool gathers = false; // the result is rows of a table and nothing else: it can be had some rows at a time
};

const Signature *findSignature(const std::string &kernel);

// The operand of which a kernel reads only the rows that its first one names, or -1.
int32_t tableOf(const Signature &signature);
// Where the weights in memory are limited, an embedding gathers so many rows at a time.
constexpr int64_t gatheredRows = 64;

// The kernel's attributes, or what is wrong with them. `frequencies` points into `kernel`.
Status readAttributes(const format::Kernel &kernel, cpu::Attributes &out);

} // namespace mebp
