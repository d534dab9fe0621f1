// SPDX-License-Identifier: Apache-2.0
#include "runtime/adapter/safetensors.h"

#include <cstring>

#include "format/half.h"
#include "runtime/bundle/validate.h"
#include "runtime/core/json.h"

namespace mebp {

using Json = nlohmann::json;

uint64_t SafeTensor::elements() const {
  uint64_t count = 1;
  for (uint64_t extent : shape)
    count *= extent;
  return count;
}

// Without exceptions a wrong type would end the process, so every access is asked for first.
static bool readCounts(const Json &list, std::vector<uint64_t> &out) {
  constexpr size_t mostDimensions = 4;
  if (!list.is_array() || list.size() > mostDimensions)
    return false;
  for (const Json &entry : list) {
    if (!entry.is_number_unsigned())
      return false;
    out.push_back(entry.get<uint64_t>());
  }
  return true;
}

static uint64_t bytesOfType(const std::string &type) {
  return type == "F32" ? 4 : type == "F16" || type == "BF16" ? 2 : 0;
}

static Status readEntry(const std::string &name, const Json &entry, const unsigned char *data, uint64_t size,
                        SafeTensor &out) {
  std::vector<uint64_t> offsets;
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !readCounts(entry["shape"], out.shape) || !entry.contains("data_offsets") ||
      !readCounts(entry["data_offsets"], offsets) || offsets.size() != 2)
    return failure(MEBP_CORRUPT, "the header's entry '%s' is damaged; save the adapter again", name.c_str());
  out.name = name;
  out.type = entry["dtype"].get<std::string>();
  if (offsets[0] > offsets[1] || offsets[1] > size)
    return failure(MEBP_CORRUPT, "'%s' reaches beyond the file, which is cut off; save the adapter again",
                   name.c_str());
  constexpr uint64_t mostElements = uint64_t(1) << 35;
  uint64_t elements = 1;
  for (uint64_t extent : out.shape)
    if (extent > maximumExtent || (elements *= extent) > mostElements)
      return failure(MEBP_CORRUPT, "'%s' has an impossible size; save the adapter again", name.c_str());
  out.data = data + offsets[0];
  out.bytes = offsets[1] - offsets[0];
  return Status();
}

Status readSafetensors(const MappedFile &file, std::vector<SafeTensor> &out) {
  uint64_t headerBytes = 0;
  if (file.size() < sizeof(headerBytes))
    return failure(MEBP_CORRUPT, "is too short for a safetensors file; save the adapter again");
  std::memcpy(&headerBytes, file.data(), sizeof(headerBytes));
  if (headerBytes > file.size() - sizeof(headerBytes))
    return failure(MEBP_CORRUPT, "is cut off within its header; save the adapter again");
  constexpr uint64_t longestHeader = 16 << 20;
  if (headerBytes > longestHeader)
    return failure(MEBP_CORRUPT, "has a longer header than any adapter; save the adapter again");
  const auto *text = reinterpret_cast<const char *>(file.data() + sizeof(headerBytes));
  Json header = parseJson({text, headerBytes});
  if (!header.is_object())
    return failure(MEBP_CORRUPT, "has no readable header; save the adapter again");
  const unsigned char *data = file.data() + sizeof(headerBytes) + headerBytes;
  uint64_t size = file.size() - sizeof(headerBytes) - headerBytes;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    SafeTensor tensor;
    if (Status status = readEntry(name, entry, data, size, tensor); !status.ok())
      return status;
    out.push_back(std::move(tensor));
  }
  return Status();
}

bool canWiden(const SafeTensor &tensor) {
  uint64_t width = bytesOfType(tensor.type);
  return width != 0 && tensor.bytes == tensor.elements() * width;
}

void widen(const SafeTensor &tensor, float *out) {
  if (tensor.type == "F32") {
    std::memcpy(out, tensor.data, tensor.bytes);
    return;
  }
  bool brain = tensor.type == "BF16";
  for (uint64_t i = 0; i < tensor.elements(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, tensor.data + 2 * i, sizeof(bits));
    out[i] = brain ? format::bfloatToFloat(bits) : format::halfToFloat(bits);
  }
}

std::string safetensorsHead(const std::vector<MatrixName> &matrices) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const MatrixName &matrix : matrices) {
    uint64_t end = offset + matrix.rows * matrix.columns * sizeof(float);
    header[matrix.name] = {{"dtype", "F32"}, {"shape", {matrix.rows, matrix.columns}}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof(length)) + text;
}

} // namespace mebp
