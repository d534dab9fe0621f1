// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about devices.
#include <memory>

#include "format/readable.h"
#include "runtime/backends/tested_device.h"
#include "runtime/core/edge.h"

using namespace mebp;

uint32_t mebp_device_count(void) {
  uint32_t count = 0;
  while (backendAt(count))
    ++count;
  return count;
}

struct mebp_device_test {
  std::string json;
};

static Status describe(uint32_t index, mebp_device_info &info) {
  const KnownBackend *known = backendAt(index);
  if (!known)
    return failure(MEBP_INVALID_ARGUMENT, "device %u does not exist; there are %u", index, mebp_device_count());
  const Device device = known->look();
  info.backend = known->number;
  info.is_there = device.absence.empty();
  info.memory_bytes = device.memoryBytes;
  format::writeText(known->name, info.name);
  format::writeText(format::readable(describe(recallTest(*known, device))), info.tested);
  format::writeText(format::readable(info.is_there ? device.description : device.absence), info.description);
  return Status();
}

mebp_code mebp_device_get_info(uint32_t index, mebp_device_info *out, mebp_error *error) {
  return guarded(error, {{"out", out}}, [&] {
    mebp_device_info info;
    mebp_device_info_init(&info);
    Status status = checkSize("mebp_device_info", *out);
    if (status.ok())
      status = describe(index, info);
    if (status.ok())
      writeSized(info, out);
    return status;
  });
}

mebp_code mebp_device_find(const char *name, mebp_backend *out, mebp_error *error) {
  return guarded(error, {{"name", name}, {"out", out}}, [&] { return findDevice(name, *out); });
}

mebp_code mebp_device_test_create(mebp_backend device, mebp_device_test **out, mebp_error *error) {
  if (out)
    *out = nullptr;
  return guarded(error, {{"out", out}}, [&] {
    const KnownBackend *known = findBackend(device);
    if (!known)
      return refuseNumber(device);
    Result<TestedDevice> tested = testAgain(*known);
    if (tested.ok())
      *out = std::make_unique<mebp_device_test>(mebp_device_test{toJson(tested->outcome, known->name)}).release();
    return tested.status();
  });
}

const char *mebp_device_test_json(const mebp_device_test *test) { return test ? test->json.c_str() : nullptr; }

void mebp_device_test_destroy(mebp_device_test *test) { delete test; }
