// SPDX-License-Identifier: Apache-2.0
//
// A state.bin, read into a session that has one of the same size. What is accepted then takes a step.
#include <cstring>
#include <vector>

#include "format/container.h"
#include "tiny_session.h"

using namespace mebp::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static TinySession session;
  static const std::string folder = scratchFolder() + "/state";
  static const bool ready = std::filesystem::create_directories(folder);
  if (!ready)
    return 0;
  writeFile(folder + "/state.bin", data, size);
  unsigned char user[256];
  uint64_t userBytes = sizeof(user);
  mebp_code code;
  {
    AllocationLimit limit(size);
    code = mebp_session_load_state(session.handle, folder.c_str(), user, &userBytes, nullptr);
  }
  if (code != MEBP_OK)
    return 0;
  static const std::vector<int32_t> ids = mebp::test::tinyTokens(10);
  mebp_step_result result;
  mebp_step_result_init(&result);
  mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, nullptr);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

// Makes the checksum right again, more often than not.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, room);
  uint32_t checksum = 0;
  if (size < sizeof(checksum) || seed % 16 == 0)
    return size;
  checksum = mebp::format::crc32(data, size - sizeof(checksum));
  std::memcpy(data + size - sizeof(checksum), &checksum, sizeof(checksum));
  return size;
}
