// SPDX-License-Identifier: Apache-2.0
//
// write_seeds [--check] CORPUS: writes the seeds of CORPUS/bundle, CORPUS/frames and CORPUS/state in the format of
// the day, or says which are not as it would write them. A reader refuses a seed of another format at once, and would
// be tried no more.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "frame_seeds.h"
#include "program_file.h"
#include "runtime/train/state.h"
#include "test/runtime/support/generating_model.h"
#include "test/runtime/support/private_model.h"
#include "tiny_session.h"

using namespace mebp::fuzz;

static std::string read(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

static std::string tiny(mebp::test::TinyOptions options) { return programFile(mebp::test::tinyBundle(options)); }

// As a run on a CPU of that family has it.
static std::string savedState(const TinySession &session, const std::string &user, const std::string &family) {
  const std::string folder = scratchFolder() + "/saved";
  if (mebp_session_save_state(session.handle, folder.c_str(), user.data(), user.size(), nullptr) != MEBP_OK)
    return {};
  std::string bytes = read(folder + "/state.bin");
  const std::string before = "\"kernels\":\"";
  const size_t begin = bytes.find(before) + before.size(), end = bytes.find('"', begin);
  bytes.replace(begin, end - begin, family);
  // The spaces behind the header come anew, too: how many there were follows from the name of this machine's kernels.
  uint64_t headerBytes = 0;
  std::memcpy(&headerBytes, bytes.data(), sizeof(headerBytes));
  const size_t headerEnd = sizeof(headerBytes) + headerBytes + family.size() - (end - begin);
  const size_t textEnd = bytes.rfind('}', headerEnd - 1) + 1;
  bytes.replace(textEnd, headerEnd - textEnd, (8 - textEnd % 8) % 8, ' ');
  headerBytes = (textEnd + 7) / 8 * 8 - sizeof(headerBytes);
  std::memcpy(bytes.data(), &headerBytes, sizeof(headerBytes));
  const size_t place = bytes.size() - sizeof(uint32_t);
  const uint32_t checksum = mebp::format::crc32(bytes.data(), place);
  std::memcpy(&bytes[place], &checksum, sizeof(checksum));
  return bytes;
}

static std::map<std::string, std::string> makeSeeds() {
  std::map<std::string, std::string> seeds;
  mebp::test::TinyOptions options;
  seeds["bundle/tiny_whole"] = tiny(options);
  options.chunk = 2;
  seeds["bundle/tiny_chunked"] = tiny(options);
  options.inPlace = true;
  options.storage = mebp::format::INT4;
  seeds["bundle/tiny_int4_in_place"] = tiny(options);
  options = {};
  options.layers = 1;
  options.logitRows = 2;
  options.storage = mebp::format::INT8;
  seeds["bundle/tiny_int8"] = tiny(options);
  options = {};
  options.sharedAdapters = options.transposed = true;
  options.storage = mebp::format::BF16;
  seeds["bundle/tiny_bf16_shared"] = tiny(options);
  seeds["bundle/tiny_generating"] = programFile(mebp::test::generatingBundle());
  seeds["bundle/tiny_private_lora"] = programFile(mebp::test::privateBundle());

  seeds["frames/to_server"] = serialize(framesOfDevice());
  seeds["frames/to_device"] = serialize(framesOfServer());

  TinySession session;
  for (const char *family : {"avx2", "portable"}) {
    seeds[std::string("state/saved_") + family] = savedState(session, "position", family);
    seeds[std::string("state/saved_without_user_data_") + family] = savedState(session, "", family);
  }
  return seeds;
}

int main(int argc, char **argv) {
  const bool checks = argc == 3 && std::strcmp(argv[1], "--check") == 0;
  if (argc != 2 && !checks) {
    std::fputs("usage: write_seeds [--check] CORPUS\n", stderr);
    return 2;
  }
  const std::filesystem::path corpus = argv[argc - 1];
  int status = 0;
  for (const auto &[name, content] : makeSeeds()) {
    const std::filesystem::path path = corpus / name;
    if (!checks) {
      writeFile(path.string(), content.data(), content.size());
    } else if (content.empty() || read(path) != content) {
      std::fprintf(stderr, "%s is not what write_seeds writes; run it\n", path.c_str());
      status = 1;
    }
  }
  return status;
}
