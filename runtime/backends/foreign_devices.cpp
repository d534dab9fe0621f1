// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/foreign_devices.h"

#include "runtime/backends/open_library.h"

namespace mebp {

Device lookAtMlx(Processor processor) {
  Result<const BackendLibrary *> library = openMlxLibrary();
  Device device;
  if (!library.ok()) {
    device.absence = library.status().message();
    return device;
  }
  device = (*library)->look(processor);
  device.build = identityOfCode(*library);
  return device;
}

Result<std::unique_ptr<Backend>> makeMlx(Processor processor, const Routes &routes) {
  return (*openMlxLibrary())->make(processor, routes);
}

} // namespace mebp
