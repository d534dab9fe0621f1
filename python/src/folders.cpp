// SPDX-License-Identifier: Apache-2.0
//
// What a run asks of the folders that it writes to.
#include "module.h"

#include <nanobind/stl/optional.h>

#include <optional>
#include <utility>

namespace mebp::python {

namespace {

class Lock {
public:
  Lock(const Path &path, bool isFolder) {
    mebp_error error;
    check(isFolder ? mebp_lock_folder(path.c_str(), &handle, &error) : mebp_lock_file(path.c_str(), &handle, &error),
          error);
  }
  Lock(const Lock &) = delete;
  ~Lock() { release(); }
  void release() { mebp_lock_release(std::exchange(handle, nullptr)); }

private:
  mebp_lock *handle = nullptr;
};

// None where the folder has no state.
std::optional<uint64_t> stateSteps(const Path &folder) {
  uint64_t steps = 0;
  mebp_error error;
  mebp_code code = mebp_state_steps(folder.c_str(), &steps, &error);
  if (code == MEBP_NOT_FOUND)
    return std::nullopt;
  check(code, error);
  return steps;
}

} // namespace

void bindFolders(nb::module_ &module) {
  nb::class_<Lock>(module, "Lock")
      .def(nb::init<const Path &, bool>(), nb::arg("path"), nb::arg("is_folder"))
      .def("release", &Lock::release);
  module.def("state_steps", &stateSteps, nb::arg("folder"));
}

} // namespace mebp::python
