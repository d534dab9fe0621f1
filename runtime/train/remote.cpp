// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/remote.h"

namespace mebp {

const layout::RemoteValue &Remote::find(uint32_t block, format::Port::Kind kind, std::string_view name) const {
  for (const layout::RemoteValue &value : plan.blocks[block])
    if (value.isOf(kind, name))
      return value;
  return plan.blocks[block].front(); // never: ports are validated
}

} // namespace mebp
