// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/tokenizer_files.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "format/container.h"
#include "runtime/core/input_file.h"
#include "runtime/core/json.h"

namespace mebp {

static Result<uint32_t> checksumOf(const InputFile &file) {
  std::vector<unsigned char> buffer(1 << 20);
  uint32_t checksum = 0;
  for (uint64_t at = 0; at < file.size();) {
    const uint64_t bytes = std::min<uint64_t>(buffer.size(), file.size() - at);
    if (Status status = file.read(at, buffer.data(), bytes); !status.ok())
      return status;
    checksum = format::crc32(buffer.data(), bytes, checksum);
    at += bytes;
  }
  return checksum;
}

static Status checkFile(const std::string &path, uint64_t checksum) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok() && file.status().code() == MEBP_NOT_FOUND)
    return failure(MEBP_CORRUPT, "%s: is missing; compile the bundle again", path.c_str());
  if (!file.ok())
    return file.status();
  Result<uint32_t> found = checksumOf(*file);
  if (!found.ok())
    return found.status();
  if (*found == checksum)
    return Status();
  return failure(MEBP_CORRUPT, "%s: checksum does not match; the file was changed, compile the bundle again",
                 path.c_str());
}

// A name from a stranger's manifest leads nowhere else.
static bool staysInside(const std::string &name) {
  return !name.empty() && name[0] != '/' && ("/" + name + "/").find("/../") == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Status checkTokenizerFiles(const std::string &folder, const std::string &manifest) {
  const nlohmann::json document = parseJson(manifest);
  const auto damaged = [&] {
    return failure(MEBP_CORRUPT, "%s/manifest.json: 'tokenizer_crc32' is damaged; compile the bundle again",
                   folder.c_str());
  };
  if (!document.is_object() || !document.contains("tokenizer_crc32"))
    return Status();
  const nlohmann::json &listed = document["tokenizer_crc32"];
  if (!listed.is_object())
    return damaged();
  for (auto entry = listed.begin(); entry != listed.end(); ++entry) {
    if (!entry->is_number_unsigned() || !staysInside(entry.key()))
      return damaged();
    const std::string path = folder + "/tokenizer/" + entry.key();
    if (Status status = checkFile(path, entry->get<uint64_t>()); !status.ok())
      return status;
  }
  return Status();
}

} // namespace mebp
