// SPDX-License-Identifier: Apache-2.0
//
// A state.bin, read into a session that has one of the same size.
#include <cstring>

#include "runtime/train/state.h"
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
  AllocationLimit limit(size);
  mebp_session_load_state(session.handle, folder.c_str(), user, &userBytes, nullptr);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

// Makes the checksums right again, more often than not the sizes too.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, room);
  mebp::StateHeader header;
  if (size < sizeof(header) || seed % 16 == 0)
    return size;
  std::memcpy(&header, data, sizeof(header));
  const uint8_t *content = data + sizeof(header);
  const uint64_t contentBytes = size - sizeof(header);
  if (seed % 4) {
    header.trainedBytes = std::min(header.trainedBytes, contentBytes);
    header.userBytes = contentBytes - header.trainedBytes;
  }
  if (header.trainedBytes <= contentBytes && header.userBytes <= contentBytes - header.trainedBytes) {
    header.trainedCrc32 = mebp::format::crc32(content, header.trainedBytes);
    header.userCrc32 = mebp::format::crc32(content + header.trainedBytes, header.userBytes);
  }
  header.headerBytes = sizeof(header);
  header.headerBytes = sizeof(header);
  header.headerCrc32 = 0;
  header.headerCrc32 = mebp::format::crc32(&header, sizeof(header));
  std::memcpy(data, &header, sizeof(header));
  return size;
}
