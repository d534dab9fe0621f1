// SPDX-License-Identifier: Apache-2.0
#include "layout/flows.h"

#include "format/lookup.h"
#include "layout/placer.h"

namespace mebp::layout {

const Flow &Border::find(std::string_view name) const {
  for (const Flow &flow : flows)
    if (flow.name == name)
      return flow;
  return flows.front(); // never: flows are validated
}

static Border borderOf(const format::Program &program, const format::Ports &ports) {
  Border border;
  Placer placer;
  for (const format::Port &port : ports) {
    if (!isFlow(port))
      continue;
    const format::Value &value = valueOf(program, port);
    const uint64_t rowBytes = rowBytesOf(value);
    border.flows.push_back({port.name(), format::storageOf(value.element()), value.columns(), rowBytes,
                            placer.take(value.rows() * rowBytes)});
  }
  border.bytes = placer.total();
  return border;
}

// Of half a model the block before may be elsewhere; then the one behind says what comes. Nothing, where both are.
Border borderBehind(const format::Bundle &bundle, int giver, bool generates) {
  const std::string_view program = generates ? format::decodeProgram : format::forwardProgram;
  if (int32_t number = programOf(bundle.blocks(giver), program); number != format::noProgram)
    return borderOf(bundle.programs(number), bundle.programs(number).outputs());
  const bool isHead = giver + 2 == bundle.blocks_size();
  int32_t number = programOf(bundle.blocks(giver + 1), format::takerOf(isHead, generates));
  return number == format::noProgram ? Border() : borderOf(bundle.programs(number), bundle.programs(number).inputs());
}

} // namespace mebp::layout
