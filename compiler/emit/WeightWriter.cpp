// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/WeightWriter.h"

#include "compiler/emit/FileBlocks.h"
#include "compiler/emit/Quantize.h"
#include "compiler/emit/WeightSource.h"
#include "format/container.h"
#include "format/weights_digest.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Parallel.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace mlir;

namespace mebp {

namespace {

/// Written by several threads at once, each at its own place.
class File {
public:
  explicit File(StringRef path)
      : descriptor(::open(path.str().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {}
  ~File() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  bool isOpen() const { return descriptor >= 0; }
  bool resize(uint64_t bytes) { return ::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0; }
  bool sync() { return ::fsync(descriptor) == 0; }
  bool writeAt(const void *data, uint64_t bytes, uint64_t offset) const {
    const auto *position = static_cast<const char *>(data);
    while (bytes) {
      ssize_t written = ::pwrite(descriptor, position, bytes, static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        return false;
      position += written;
      offset += written;
      bytes -= written;
    }
    return true;
  }

private:
  int descriptor;
};

// This many of the digest's batches are held at once.
constexpr uint64_t windowBatches = 16;

/// Some rows of a weight: stored by any thread, reported and added to the digest in their order.
struct Batch {
  std::vector<unsigned char> data;
  std::vector<uint16_t> scales, minima;
  std::optional<uint64_t> badRow; // the first that cannot be stored,
  float badValue = 0;             // because of this value, or because it is too large, if finite
  int systemError = 0;            // of writing
};

class Writer {
public:
  Writer(const File &file, const WeightSource &source, const format::Weight &weight, format::WeightFormat weightFormat)
      : file(file), source(source), weight(weight), weightFormat(weightFormat), columns(weight.columns()),
        rowBytes(rowBytesOf(format::storageOf(weightFormat), columns)),
        groups(groupsOf(format::storageOf(weightFormat), columns)) {}

  void write(uint64_t first, uint64_t count, Batch &batch) const {
    batch.data.resize(count * rowBytes);
    batch.scales.resize(count * groups);
    batch.minima.resize(count * groups);
    std::vector<float> row(columns);
    for (uint64_t i = 0; i < count; ++i) {
      unsigned char *data = batch.data.data() + i * rowBytes;
      uint16_t *scales = batch.scales.data() + i * groups, *minima = batch.minima.data() + i * groups;
      if (const format::FileType *type = source.getFileType(); type && type->heldBy == weightFormat) {
        storeBlocks(*type, source.getBlocks(first + i), columns, data, scales, minima);
        continue;
      }
      source.readRow(first + i, row.data());
      auto bad = llvm::find_if(row, [](float value) { return !std::isfinite(value); });
      if (bad != row.end() || !storeRow(weightFormat, row.data(), columns, data, scales, minima)) {
        batch.badRow = first + i;
        batch.badValue = bad != row.end() ? *bad : 0.0f;
        return;
      }
    }
    auto [data, scales, minima] = format::partsOfRows(weight, first, count);
    if (!file.writeAt(batch.data.data(), data.bytes, data.offset) ||
        !file.writeAt(batch.scales.data(), scales.bytes, scales.offset) ||
        !file.writeAt(batch.minima.data(), minima.bytes, minima.offset))
      batch.systemError = errno;
  }

private:
  const File &file;
  const WeightSource &source;
  const format::Weight &weight;
  const format::WeightFormat weightFormat;
  const uint64_t columns, rowBytes, groups;
};

uint32_t addToDigest(const Batch &batch, uint32_t digest) {
  digest = format::crc32(batch.data.data(), batch.data.size(), digest);
  digest = format::crc32(batch.scales.data(), batch.scales.size() * 2, digest);
  return format::crc32(batch.minima.data(), batch.minima.size() * 2, digest);
}

} // namespace

LogicalResult writeWeights(ArrayRef<nn::ParameterOp> parameters, std::optional<uint64_t> randomSeed,
                           const format::Bundle &bundle, llvm::function_ref<bool()> isInterrupted, StringRef path,
                           uint32_t &digest) {
  digest = 0;
  File file(path);
  auto systemError = [&](Location location, int number) {
    return emitError(location) << path << ": " << std::strerror(number) << "; nothing was written";
  };
  ModuleOp module = nn::ParameterOp(parameters.front())->getParentOfType<ModuleOp>();
  Location unknown = module.getLoc();
  if (!file.isOpen() || !file.resize(bundle.weights_bytes()))
    return systemError(unknown, errno);

  WeightSource source(randomSeed);
  std::array<Batch, windowBatches> window;
  for (auto [index, constParameter] : llvm::enumerate(parameters)) {
    nn::ParameterOp parameter = constParameter;
    if (failed(source.open(parameter, index)))
      return failure();
    const format::Weight &weight = bundle.weights(index);
    Writer writer(file, source, weight, *parameter.getWeightFormat());
    uint64_t batchRows = format::batchRowsOf(weight);
    uint64_t batches = llvm::divideCeil(weight.rows(), batchRows);
    for (uint64_t begin = 0; begin < batches; begin += windowBatches) {
      if (isInterrupted())
        return failure();
      uint64_t end = std::min(begin + windowBatches, batches);
      llvm::parallelFor(begin, end, [&](uint64_t number) {
        uint64_t first = number * batchRows;
        writer.write(first, std::min(batchRows, weight.rows() - first), window[number - begin]);
      });
      for (const Batch &batch : llvm::ArrayRef(window).take_front(end - begin)) {
        if (batch.badRow && !std::isfinite(batch.badValue))
          return parameter.emitError() << "'" << weight.name() << "' has a value that is not finite (" << batch.badValue
                                       << ") in row " << *batch.badRow << "; repair the checkpoint";
        if (batch.badRow)
          return parameter.emitError() << "'" << weight.name() << "' has values too large to be quantised in row "
                                       << *batch.badRow << "; compile with --weights bf16 or f32";
        if (batch.systemError)
          return systemError(parameter.getLoc(), batch.systemError);
        digest = addToDigest(batch, digest);
      }
    }
  }
  return file.sync() ? success() : LogicalResult(systemError(unknown, errno));
}

} // namespace mebp
