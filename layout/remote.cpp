// SPDX-License-Identifier: Apache-2.0
#include "layout/remote.h"

#include <algorithm>

#include "format/lookup.h"

namespace mebp::layout {

using format::Port;

namespace {

struct Passed {
  RemoteValue value;
  uint64_t bytes = 0;
  bool isKept = false;
};

class Collector {
public:
  Collector(const format::Bundle &bundle, bool generates, bool hasGradients)
      : bundle(bundle), generates(generates), hasGradients(hasGradients) {}

  std::vector<Passed> collect(const format::Block &block) const {
    std::vector<Passed> passed;
    for (const format::BlockProgram &named : block.programs()) {
      const format::Program &program = bundle.programs(static_cast<int>(named.program()));
      const bool isBackward = givesGradients(program);
      if (format::generates(named.name()) != generates || (isBackward && !hasGradients))
        continue;
      for (const Port &port : program.inputs())
        add(program, port, isBackward && !format::isCotangent(port.name()), passed);
      for (const Port &port : program.outputs())
        add(program, port, false, passed);
    }
    return passed;
  }

private:
  static void add(const format::Program &program, const Port &port, bool isKept, std::vector<Passed> &passed) {
    if (port.kind() != Port::REMOTE && port.kind() != Port::KEPT)
      return;
    auto entry = std::find_if(passed.begin(), passed.end(),
                              [&](const Passed &one) { return one.value.isOf(port.kind(), port.name()); });
    if (entry == passed.end()) {
      const format::Value &value = valueOf(program, port);
      const uint64_t rowBytes = rowBytesOf(value);
      passed.push_back({{port.kind(), port.name(), 0, rowBytes}, value.rows() * rowBytes, false});
      entry = passed.end() - 1;
    }
    entry->isKept |= isKept;
  }

  const format::Bundle &bundle;
  bool generates, hasGradients;
};

} // namespace

RemotePlan planRemote(const format::Bundle &bundle, bool generates, bool hasGradients, Placer &memory) {
  const Collector collector(bundle, generates, hasGradients);
  RemotePlan plan;
  std::vector<std::vector<bool>> passing;
  uint64_t most = 0;
  for (const format::Block &block : bundle.blocks()) {
    Placer shared;
    plan.blocks.emplace_back();
    passing.emplace_back();
    for (Passed &passed : collector.collect(block)) {
      passed.value.offset = (passed.isKept ? memory : shared).take(passed.bytes);
      plan.blocks.back().push_back(passed.value);
      passing.back().push_back(!passed.isKept);
    }
    most = std::max(most, shared.total());
  }
  const uint64_t begin = memory.take(most);
  for (size_t block = 0; block < passing.size(); ++block)
    for (size_t i = 0; i < passing[block].size(); ++i)
      if (passing[block][i])
        plan.blocks[block][i].offset += begin;
  return plan;
}

} // namespace mebp::layout
