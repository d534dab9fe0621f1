// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/Scratch.h"

#include "compiler/plan/DeviceMemory.h"
#include "compiler/plan/Lifetimes.h"
#include "dialects/exec/Placement.h"
#include "dialects/nn/Locations.h"

using namespace mlir;

namespace mebp {

namespace {

/// The values of the scratch arena where it is fullest, by their places: values in one place count once.
struct ArenaPeak {
  DenseMap<int64_t, Value> values;
  uint64_t bytes = 0;
};

ArenaPeak findArenaPeak(exec::ProgramOp program) {
  Lifetimes lifetimes(program);
  SmallVector<std::pair<Value, int64_t>> inArena;
  unsigned last = 0;
  for (Value value : lifetimes.getValues()) {
    std::optional<exec::Span> place = exec::locate(value);
    if (place->memory != exec::Memory::Arena || value.getDefiningOp<train::SliceOp>())
      continue;
    inArena.push_back({value, place->begin});
    last = std::max(last, lifetimes.get(value).end);
  }
  ArenaPeak peak;
  for (unsigned position = 0; position <= last; ++position) {
    ArenaPeak live;
    for (auto [value, offset] : inArena) {
      auto interval = lifetimes.get(value);
      if (position < interval.begin || position > interval.end)
        continue;
      if (live.values.try_emplace(offset, value).second)
        live.bytes += exec::sizeInBytes(value);
    }
    if (live.bytes > peak.bytes)
      peak = std::move(live);
  }
  return peak;
}

PlannedBuffer describe(Value value) {
  Operation *definition = value.getDefiningOp();
  auto kernel = dyn_cast_or_null<exec::KernelOp>(definition);
  std::string name = kernel       ? kernel.getKernel().str()
                     : definition ? definition->getName().stripDialect().str()
                                  : "carried";
  return {name, exec::sizeInBytes(value), nn::describeLocation(value.getLoc())};
}

} // namespace

Scratch findScratch(exec::ProgramOp program, train::BlockOp block, const format::DeviceTraits &device) {
  Scratch scratch;
  if (device.placesValues) {
    DevicePeak peak = findDevicePeak(program, block, device);
    scratch.bytes = scratch.live = peak.bytes;
    llvm::append_range(scratch.atPeak, llvm::map_range(peak.values, [](Value value) { return describe(value); }));
    if (peak.withinKernel)
      scratch.atPeak.push_back(
          {"within " + peak.kernel.getKernel().str(), peak.withinKernel, nn::describeLocation(peak.kernel.getLoc())});
  } else {
    ArenaPeak peak = findArenaPeak(program);
    scratch.bytes = program.getArenaBytes();
    scratch.live = peak.bytes;
    for (auto [offset, value] : peak.values)
      scratch.atPeak.push_back(describe(value));
  }
  llvm::sort(scratch.atPeak, [](const PlannedBuffer &a, const PlannedBuffer &b) {
    return std::tie(b.bytes, a.name, a.source) < std::tie(a.bytes, b.name, b.source);
  });
  return scratch;
}

uint64_t countScratch(exec::ProgramOp program, train::BlockOp block, const format::DeviceTraits &device) {
  return device.placesValues ? findDevicePeak(program, block, device).bytes : program.getArenaBytes();
}

} // namespace mebp
