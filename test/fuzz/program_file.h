// SPDX-License-Identifier: Apache-2.0
//
// A program.pb as it lies in a bundle folder, beside a manifest.json of two bytes.
#pragma once

#include <string>

#include "format/container.h"
#include "format/program.pb.h"

namespace mebp::fuzz {

constexpr char manifest[] = "{}";
inline const uint32_t manifestCrc = format::crc32(manifest, sizeof(manifest) - 1);

inline std::string withHeader(const std::string &payload) {
  const format::Header header = format::headerOf(payload);
  return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + payload;
}

inline std::string programFile(format::Bundle content) {
  content.set_manifest_crc32(manifestCrc);
  return withHeader(content.SerializeAsString());
}

} // namespace mebp::fuzz
