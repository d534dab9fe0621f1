// SPDX-License-Identifier: Apache-2.0
//
// What shapes alone do not say of a kernel call (format/kernels.h), so that no kernel ever has to check.
#pragma once

#include <cstdint>

#include "format/kernels.h"
#include "format/program.pb.h"
#include "runtime/core/status.h"
#include "runtime/exec/attributes.h"

namespace mebp {

// A call whose operands and results have the signature's shapes. Dimensions are looked up by their letter.
struct KernelShape {
  const format::Kernel &kernel;
  const Attributes &attributes;
  int64_t counts[128] = {};

  bool hasOperand(int index) const { return index < kernel.operands_size() && kernel.operands(index) >= 0; }
  int64_t operator[](char letter) const { return counts[static_cast<unsigned char>(letter)]; }
};

Status checkRule(const KernelShape &shape, const format::KernelSignature &signature);
// That one thread's workspace holds what the call needs of it. The rule must hold already.
Status checkRoom(const KernelShape &shape, const format::KernelSignature &signature);

} // namespace mebp
