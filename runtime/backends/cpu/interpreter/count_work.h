// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/kernel_signature.h"
#include "runtime/backends/cpu/kernel/kernel.h"
#include "runtime/core/work.h"

namespace mebp::cpu {

// The flops and bytes of a call, by its equation in docs/kernels.md and the live sizes of its tensors, whatever way the
// kernel takes. Flops: a multiplication and an addition count as two. Of products they are exact, under attention's
// mask too, and what is done once for each element beside them is left out; of all else they are a few for each
// element. Bytes: what has to be read of operands and written of results, once, as it is stored.
Work countWork(const format::KernelSignature &signature, const Call &call, const Context &context);

} // namespace mebp::cpu
