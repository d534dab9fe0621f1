// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/flows.h"

#include "runtime/bundle/programs.h"
#include "runtime/train/placer.h"

namespace mebp {

const Flow &Border::find(std::string_view name) const {
  for (const Flow &flow : flows)
    if (flow.name == name)
      return flow;
  return flows.front(); // never: flows are validated
}

static Border borderBehind(const format::Bundle &bundle, const format::Block &block, std::string_view program) {
  Border border;
  Placer placer;
  const format::Program &forward = bundle.programs(programOf(block, program));
  for (const format::Port &port : forward.outputs()) {
    if (!isFlow(port))
      continue;
    const format::Value &value = forward.values(static_cast<int>(port.value()));
    const format::Storage storage = format::storageOf(value.element());
    uint64_t rowBytes = format::rowBytesOf(storage, value.columns());
    border.flows.push_back({port.name(), storage, value.columns(), rowBytes, placer.take(value.rows() * rowBytes)});
  }
  border.bytes = placer.total();
  return border;
}

std::vector<Border> bordersOf(const format::Bundle &bundle, std::string_view program) {
  std::vector<Border> borders;
  for (int i = 0; i + 1 < bundle.blocks_size(); ++i)
    borders.push_back(borderBehind(bundle, bundle.blocks(i), program));
  return borders;
}

} // namespace mebp
