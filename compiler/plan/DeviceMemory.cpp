// SPDX-License-Identifier: Apache-2.0
//
// What MLX holds while it runs a program (runtime/backends/mlx/execute.cpp): it computes kernel after kernel, gives
// each value memory of its own, and frees it behind its last reader. Placements, and what might be computed in place,
// are not for it.
//
// 1. A value is held from where it is defined to its last reader (Lifetimes.h); what flows in until the program's end.
//    A slice of what is no parameter counts as if it were a copy, which it mostly becomes.
// 2. Where a kernel runs, what it makes beside its results is held, too (format/device_memory.h).
// 3. The sum is looked at where a kernel or a loop begins: nowhere else does anything come.
#include "compiler/plan/DeviceMemory.h"

#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/StoredWeights.h"
#include "dialects/nn/Parameters.h"
#include "format/device_memory.h"

using namespace mlir;

namespace mebp {

namespace {

class Device {
public:
  Device(exec::ProgramOp program, train::BlockOp block, const format::DeviceTraits &traits)
      : program(program), block(block), traits(traits), lifetimes(program) {
    for (Value value : lifetimes.getValues())
      if (!exec::getParameter(program, value))
        held.push_back(value);
  }

  DevicePeak findPeak() {
    DevicePeak peak;
    auto look = [&](unsigned position, exec::KernelOp kernel) {
      DevicePeak now;
      now.kernel = kernel;
      now.withinKernel = kernel ? countWithin(kernel) : 0;
      now.bytes = now.withinKernel;
      for (Value value : held) {
        Lifetimes::Interval interval = lifetimes.get(value);
        if (position < interval.begin || position > interval.end)
          continue;
        now.values.push_back(value);
        now.bytes += exec::sizeInBytes(value);
      }
      if (now.bytes > peak.bytes)
        peak = std::move(now);
    };
    look(0, exec::KernelOp());
    program.walk([&](Operation *op) {
      if (op->getNumResults() > 0)
        look(lifetimes.get(op->getResult(0)).begin, dyn_cast<exec::KernelOp>(op));
    });
    return peak;
  }

private:
  uint64_t countWithin(exec::KernelOp kernel) {
    auto describe = [&](Value value) {
      if (!value)
        return format::HeldMatrix();
      auto type = cast<RankedTensorType>(value.getType());
      auto [rows, columns] = std::pair<uint64_t, uint64_t>(type.getDimSize(0), type.getDimSize(1));
      nn::ParameterOp parameter = findParameter(program, block, value);
      format::Storage stored = parameter                        ? getStorage(parameter)
                               : type.getElementType().isBF16() ? format::Storage::BF16
                                                                : format::Storage::F32;
      return format::HeldMatrix{rows, columns, stored};
    };
    SmallVector<format::HeldMatrix> operands, results;
    llvm::append_range(operands, llvm::map_range(kernel.getSlotOperands(), describe));
    llvm::append_range(results, llvm::map_range(kernel.getOutputs(), describe));
    auto getNumber = [&](StringRef name) -> uint64_t {
      auto number = kernel.getKernelAttributes().getAs<IntegerAttr>(name);
      return number ? number.getInt() : 0;
    };
    auto frequencies = kernel.getKernelAttributes().getAs<DenseF32ArrayAttr>("frequencies");
    return format::bytesHeldWithin({kernel.getSignature(), operands.data(), operands.size(), results.data(),
                                    results.size(), getNumber("heads"), getNumber("window"),
                                    static_cast<uint64_t>(frequencies ? frequencies.size() : 0),
                                    traits.multipliesDequantised});
  }

  exec::ProgramOp program;
  train::BlockOp block;
  const format::DeviceTraits &traits;
  Lifetimes lifetimes;
  SmallVector<Value> held;
};

} // namespace

DevicePeak findDevicePeak(exec::ProgramOp program, train::BlockOp block, const format::DeviceTraits &device) {
  return Device(program, block, device).findPeak();
}

} // namespace mebp
