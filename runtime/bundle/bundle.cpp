// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/bundle.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "format/container.h"
#include "format/folders.h"
#include "format/stored_row.h"
#include "format/weights_digest.h"
#include "format/wire.h"
#include "runtime/bundle/describe.h"
#include "runtime/bundle/validate.h"

namespace mebp {

// Of the weights' file: what kernels that read f32 need. Application packages align what they do not compress so.
constexpr uint64_t leastAlignment = 4;

static Status damaged(const std::string &file, const char *what) {
  return failure(MEBP_CORRUPT, "%s: %s; the file is damaged, compile it again", file.c_str(), what);
}

// A program file's header, against what follows it.
static Status checkHeader(const std::string &file, const std::string &content) {
  format::Header header;
  if (content.size() < sizeof(header) || std::memcmp(content.data(), format::magic, sizeof(format::magic)) != 0)
    return damaged(file, "is not a compiled program");
  std::memcpy(&header, content.data(), sizeof(header));
  // Before the checksum: a newer major version may lay out the rest in another way.
  if (header.major > format::majorVersion)
    return failure(
        MEBP_INCOMPATIBLE,
        "%s: has format version %u.%u, newer than this runtime's %u.%u; use a newer runtime or compile again",
        file.c_str(), header.major, header.minor, format::majorVersion, format::minorVersion);
  if (header.major < format::majorVersion)
    return failure(MEBP_INCOMPATIBLE,
                   "%s: has format version %u.%u, which this runtime no longer reads; compile it again", file.c_str(),
                   header.major, header.minor);
  if (format::crc32(&header, offsetof(format::Header, headerCrc32)) != header.headerCrc32)
    return damaged(file, "checksum of the header does not match");
  if (header.payloadBytes != content.size() - sizeof(header))
    return failure(MEBP_CORRUPT, "%s: has %llu bytes of program, its header says %llu; it is cut off, compile it again",
                   file.c_str(), static_cast<unsigned long long>(content.size() - sizeof(header)),
                   static_cast<unsigned long long>(header.payloadBytes));
  if (format::crc32(content.data() + sizeof(header), header.payloadBytes) != header.payloadCrc32)
    return damaged(file, "checksum does not match");
  return Status();
}

Status Bundle::openProgram() {
  const std::string &file = files.program.name();
  Result<std::string> content = files.program.readAll(64 << 20);
  if (!content.ok())
    return content.status();
  if (Status status = checkHeader(file, *content); !status.ok())
    return status;
  const char *payload = content->data() + sizeof(format::Header);
  size_t size = content->size() - sizeof(format::Header);
  switch (format::parseMessage({payload, size}, bundle)) {
  case format::Parsed::Yes:
    break;
  case format::Parsed::No:
    return damaged(file, "is not readable");
  case format::Parsed::TooLarge:
    return damaged(file, "has more parts than a program of its size");
  }
  checksum = format::crc32(payload, size);
  if (Status status = validateBundle(bundle); !status.ok())
    return status.in(file);
  return Status();
}

Status Bundle::open(const std::string &folder, bool isPartial) {
  std::string path = folder;
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  if (!format::isFolder(path))
    return failure(MEBP_NOT_FOUND, "no bundle at %s; make one with mebpc", path.c_str());
  Files opened;
  for (auto [name, file] : {std::pair("program.pb", &opened.program), std::pair("manifest.json", &opened.manifest),
                            std::pair("weights.bin", &opened.weights)}) {
    Result<InputFile> result = InputFile::open(path + "/" + name);
    const bool mayLack = isPartial && file == &opened.weights && result.status().code() == MEBP_NOT_FOUND;
    if (!result.ok() && !mayLack)
      return result.status();
    *file = result.ok() ? std::move(*result) : InputFile(path + "/" + name);
  }
  return open(std::move(opened), isPartial);
}

Status Bundle::openManifest() {
  Result<std::string> manifest = files.manifest.readAll(16 << 20);
  if (!manifest.ok())
    return manifest.status();
  if (format::crc32(manifest->data(), manifest->size()) != bundle.manifest_crc32())
    return damaged(files.manifest.name(), "checksum does not match");
  manifestText = std::move(*manifest);
  return Status();
}

Status Bundle::checkAllWeights() const {
  if (hasAllWeights())
    return Status();
  return failure(MEBP_CORRUPT, "%s: has %llu bytes, the program needs %llu; it is %s, compile it again",
                 files.weights.name().c_str(), static_cast<unsigned long long>(files.weights.size()),
                 static_cast<unsigned long long>(bundle.weights_bytes()),
                 files.weights.size() < bundle.weights_bytes() ? "cut off" : "of another bundle");
}

Status Bundle::open(Files opened, bool isPartial) {
  files = std::move(opened);
  if (Status status = openProgram(); !status.ok())
    return status;
  if (Status status = openManifest(); !status.ok())
    return status;
  const InputFile &weightsFile = files.weights;
  if (!isPartial || weightsFile.size() > bundle.weights_bytes())
    if (Status status = checkAllWeights(); !status.ok())
      return status;
  // Tensors keep their distances from a multiple of format::regionAlignment.
  if (weightsFile.offset() % leastAlignment != 0)
    return failure(MEBP_INVALID_ARGUMENT, "%s: begins at byte %llu, which is not a multiple of %llu; align it there",
                   weightsFile.name().c_str(), static_cast<unsigned long long>(weightsFile.offset()),
                   static_cast<unsigned long long>(leastAlignment));
  return Status();
}

Status Bundle::mapWeights() {
  std::lock_guard<std::mutex> guard(lazily);
  const InputFile &file = files.weights;
  if (areMapped || file.size() == 0)
    return Status();
  Result<InputFile> again = InputFile::part(file.name(), file.descriptor(), file.offset(), file.size());
  if (!again.ok())
    return damaged(file.name(), "changed its size since it was opened");
  Result<MappedFile> mapped = MappedFile::map(std::move(*again));
  if (!mapped.ok())
    return mapped.status();
  weights = std::move(*mapped);
  areMapped = true;
  return Status();
}

Status Bundle::checkWeights() const {
  if (!weights.isCut())
    return Status();
  return failure(MEBP_IO, "%s: was cut off while it was used, or its disk cannot read it; copy the bundle here again",
                 files.weights.name().c_str());
}

Status Bundle::checkDigest() const {
  if (!bundle.has_weights_crc32())
    return failure(MEBP_UNSUPPORTED, "%s: the bundle has no checksum of it; compile it again",
                   files.weights.name().c_str());
  if (Status status = checkAllWeights(); !status.ok())
    return status;
  std::vector<unsigned char> buffer;
  uint32_t digest = 0;
  for (const format::Weight &weight : bundle.weights()) {
    const uint64_t batch = format::batchRowsOf(weight);
    for (uint64_t row = 0; row < weight.rows(); row += batch) {
      for (auto [offset, bytes] : format::partsOfRows(weight, row, std::min(batch, weight.rows() - row))) {
        buffer.resize(bytes);
        if (Status status = files.weights.read(offset, buffer.data(), bytes); !status.ok())
          return status;
        digest = format::crc32(buffer.data(), bytes, digest);
      }
    }
  }
  return digest == bundle.weights_crc32() ? Status() : damaged(files.weights.name(), "checksum does not match");
}

WeightMemory Bundle::weightMemory(uint32_t index) const {
  const format::Weight &weight = bundle.weights(static_cast<int>(index));
  WeightMemory memory;
  memory.data = weights.data() + weight.data_offset();
  if (isQuantised(format::storageOf(weight.element()))) {
    memory.scales = reinterpret_cast<const uint16_t *>(weights.data() + weight.scales_offset());
    memory.minima = reinterpret_cast<const uint16_t *>(weights.data() + weight.minima_offset());
  }
  return memory;
}

Status Bundle::readWeight(uint32_t index, float *out) {
  if (Status status = checkAllWeights(); !status.ok())
    return status;
  if (Status status = mapWeights(); !status.ok())
    return status;
  const format::Weight &weight = bundle.weights(static_cast<int>(index));
  const WeightMemory memory = weightMemory(index);
  const format::Storage storage = format::storageOf(weight.element());
  const uint64_t rowBytes = format::rowBytesOf(storage, weight.columns());
  const uint64_t groups = format::groupsOf(storage, weight.columns());
  const uint64_t matrixRows = weight.rows() / matricesOf(weight);
  std::vector<float> column(weight.transposed() ? weight.columns() : 0);
  for (uint64_t row = 0; row < weight.rows(); ++row) {
    const format::StoredRow stored = {storage, memory.data + row * rowBytes, memory.scales + row * groups,
                                      memory.minima + row * groups};
    float *to = weight.transposed() ? column.data() : out + row * weight.columns();
    format::readRow(stored, 0, static_cast<int64_t>(weight.columns()), to);
    float *matrix = out + row / matrixRows * matrixRows * weight.columns();
    for (uint64_t i = 0; i < column.size(); ++i)
      matrix[i * matrixRows + row % matrixRows] = column[i];
  }
  for (const format::Trainable &rows : bundle.trainables())
    if (rows.has_rows_of() && rows.rows_of() == index)
      if (Status status = readWeight(rows.initial_weight(), out + uint64_t{rows.first_row()} * weight.columns());
          !status.ok())
        return status;
  return checkWeights();
}

const char *Bundle::describe() {
  std::lock_guard<std::mutex> guard(lazily);
  if (description.empty())
    description = describeBundle(bundle);
  return description.c_str();
}

} // namespace mebp
