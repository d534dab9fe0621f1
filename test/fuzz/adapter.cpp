// SPDX-License-Identifier: Apache-2.0
//
// An adapter's folder. A file that begins as JSON is its adapter_config.json, any other its adapter_model.safetensors;
// the other of the two is as the runtime saves it.
#include <algorithm>
#include <cstring>

#include "tiny_session.h"

using namespace mebp::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static TinySession session;
  static const std::string saved = scratchFolder() + "/saved", folder = scratchFolder() + "/adapter";
  static const bool ready = mebp_session_save_adapter(session.handle, saved.c_str(), nullptr) == MEBP_OK &&
                            std::filesystem::create_directories(folder);
  if (!ready)
    return 0;
  const char *names[] = {"/adapter_config.json", "/adapter_model.safetensors"};
  const bool isConfig = size && data[0] == '{';
  const char *given = names[isConfig ? 0 : 1], *other = names[isConfig ? 1 : 0];
  static const char *before = nullptr;
  if (before != given)
    std::filesystem::copy_file(saved + other, folder + other, std::filesystem::copy_options::overwrite_existing);
  before = given;
  writeFile(folder + given, data, size);
  AllocationLimit limit(size);
  mebp_session_load_adapter(session.handle, folder.c_str(), nullptr);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

// Mutates the header of a safetensors file apart from its data, and mostly keeps its length right.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  uint64_t length = 0;
  constexpr size_t before = sizeof(length);
  if (size > before)
    std::memcpy(&length, data, before);
  if (size <= before || data[0] == '{' || length > size - before || seed % 16 == 0)
    return LLVMFuzzerMutate(data, size, room);
  const std::string tensors(data + before + length, data + size);
  if (tensors.size() + before + 1 >= room)
    return LLVMFuzzerMutate(data, size, room);
  length = LLVMFuzzerMutate(data + before, length, room - before - tensors.size());
  std::memcpy(data, &length, before);
  std::memcpy(data + before + length, tensors.data(), tensors.size());
  return before + length + tensors.size();
}
