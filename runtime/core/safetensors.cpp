// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/safetensors.h"

#include <cstring>

#include "format/half.h"
#include "runtime/core/json.h"

namespace mebp {

using Json = nlohmann::json;

uint64_t SafeTensor::elements() const {
  uint64_t count = 1;
  for (uint64_t extent : shape)
    count *= extent;
  return count;
}

static uint64_t bytesOfType(const std::string &type) {
  return type == "F32" ? 4 : type == "F16" || type == "BF16" ? 2 : 0;
}

namespace {

// One entry of the header for each tensor.
struct Entry {
  std::string name, type;
  std::vector<uint64_t> shape, offsets;
  bool isDamaged = false;
};

class HeaderReader final : public JsonVisitor {
public:
  void begin(bool isArray) override {
    if (++depth == 1)
      isObject = !isArray;
    else if (depth == 2 && !isMetadata)
      entries.back().isDamaged |= isArray;
    else if (depth == 3 && !isMetadata && (field == "shape" || field == "data_offsets"))
      entries.back().isDamaged |= !isArray;
  }
  void end() override { --depth; }
  void key(const std::string &name) override {
    if (depth == 1) {
      isMetadata = name == "__metadata__";
      if (!isMetadata)
        entries.push_back({name, "", {}, {}, false});
    } else if (depth == 2) {
      field = name;
    }
  }
  void text(const std::string &value) override {
    if (depth == 2 && isMetadata)
      metadata.emplace_back(field, value);
    else if (depth == 2 && field == "dtype")
      entries.back().type = value;
    else
      other();
  }
  void whole(uint64_t value) override {
    constexpr size_t mostDimensions = 4;
    if (depth != 3 || isMetadata)
      return other();
    std::vector<uint64_t> &list = field == "shape" ? entries.back().shape : entries.back().offsets;
    entries.back().isDamaged |= list.size() == mostDimensions;
    if (!entries.back().isDamaged)
      list.push_back(value);
  }
  void number(double) override { other(); }
  void other() override {
    if (depth > 0 && !isMetadata && !entries.empty())
      entries.back().isDamaged = true;
  }

  std::vector<Entry> entries;
  SafeMetadata metadata;
  bool isObject = false;

private:
  int depth = 0;
  bool isMetadata = false;
  std::string field;
};

} // namespace

static Status readEntry(const Entry &entry, const unsigned char *data, uint64_t size, const char *advice,
                        SafeTensor &out) {
  const char *name = entry.name.c_str();
  constexpr size_t longestName = 512, longestType = 16; // a line has to hold them
  if (entry.name.size() > longestName)
    return failure(MEBP_CORRUPT, "has a tensor with a name of %zu bytes; %s", entry.name.size(), advice);
  if (entry.isDamaged || entry.type.empty() || entry.type.size() > longestType || entry.offsets.size() != 2)
    return failure(MEBP_CORRUPT, "the header's entry '%s' is damaged; %s", name, advice);
  if (entry.offsets[0] > entry.offsets[1] || entry.offsets[1] > size)
    return failure(MEBP_CORRUPT, "'%s' reaches beyond the file, which is cut off; %s", name, advice);
  constexpr uint64_t mostElements = uint64_t(1) << 35;
  uint64_t elements = 1;
  for (uint64_t extent : entry.shape) {
    if (extent && elements > mostElements / extent)
      return failure(MEBP_CORRUPT, "'%s' has an impossible size; %s", name, advice);
    elements *= extent;
  }
  out = {entry.name, entry.type, entry.shape, data + entry.offsets[0], entry.offsets[1] - entry.offsets[0]};
  return Status();
}

Status readSafetensors(const MappedFile &file, const char *advice, std::vector<SafeTensor> &out,
                       SafeMetadata *metadata) {
  uint64_t headerBytes = 0;
  if (file.size() < sizeof(headerBytes))
    return failure(MEBP_CORRUPT, "is too short for a safetensors file; %s", advice);
  std::memcpy(&headerBytes, file.data(), sizeof(headerBytes));
  if (headerBytes > file.size() - sizeof(headerBytes))
    return failure(MEBP_CORRUPT, "is cut off within its header; %s", advice);
  constexpr uint64_t longestHeader = 16 << 20;
  if (headerBytes > longestHeader)
    return failure(MEBP_CORRUPT, "has a header of more than 16 MiB; %s", advice);
  const auto *text = reinterpret_cast<const char *>(file.data() + sizeof(headerBytes));
  HeaderReader header;
  if (!visitJson({text, headerBytes}, header) || !header.isObject)
    return failure(MEBP_CORRUPT, "has no readable header; %s", advice);
  const unsigned char *data = file.data() + sizeof(headerBytes) + headerBytes;
  uint64_t size = file.size() - sizeof(headerBytes) - headerBytes;
  for (const Entry &entry : header.entries) {
    out.emplace_back();
    if (Status status = readEntry(entry, data, size, advice, out.back()); !status.ok())
      return status;
  }
  if (metadata)
    *metadata = std::move(header.metadata);
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

static std::string quoted(const std::string &text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Written piece by piece: of thousands of tensors, an object in memory would be far larger than its text.
std::string safetensorsHead(const std::vector<TensorHead> &tensors, const SafeMetadata &metadata) {
  std::string text = "{\"__metadata__\":{";
  for (const auto &[name, value] : metadata)
    text += (text.back() == '{' ? "" : ",") + quoted(name) + ":" + quoted(value);
  text += "}";
  uint64_t begin = 0;
  for (const TensorHead &tensor : tensors) {
    uint64_t bytes = tensor.elementBytes;
    std::string shape;
    for (uint64_t extent : tensor.shape) {
      bytes *= extent;
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    }
    text += "," + quoted(tensor.name) + ":{\"dtype\":\"" + tensor.type + "\",\"shape\":[" + shape +
            "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(begin + bytes) + "]}";
    begin += bytes;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof(length)) + text;
}

} // namespace mebp
