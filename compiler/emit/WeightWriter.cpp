// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/WeightWriter.h"

#include "compiler/emit/WeightSource.h"
#include "format/container.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace mlir;

namespace mebp {

namespace {

/// Tables of embeddings, and the head, which sees every token of the vocabulary.
llvm::StringSet<> findEmbeddings(ModuleOp module) {
  llvm::StringSet<> names;
  for (auto block : module.getOps<train::BlockOp>())
    if (block.getKind() != train::BlockKind::Layer)
      for (auto name : block.getParameters().getAsRange<FlatSymbolRefAttr>())
        names.insert(name.getValue());
  return names;
}

format::ElementType getElementType(WeightFormat weightFormat) {
  switch (weightFormat) {
  case WeightFormat::F32:
    return format::F32;
  case WeightFormat::BF16:
    return format::BF16;
  case WeightFormat::Int8:
    return format::INT8;
  case WeightFormat::Int4:
  case WeightFormat::Int4Symmetric:
    return format::INT4;
  }
  return format::ELEMENT_TYPE_UNSPECIFIED;
}

WeightFormat chooseFormat(nn::ParameterOp parameter, const WeightOptions &options,
                          const llvm::StringSet<> &embeddings) {
  if (parameter.getTensorType().getRank() == 1)
    return WeightFormat::F32;
  return embeddings.contains(parameter.getSymName()) ? options.embeddings : options.matrices;
}

class File {
public:
  explicit File(StringRef path) : path(path.str()), descriptor(::open(this->path.c_str(), O_WRONLY | O_CREAT, 0644)) {}
  ~File() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  bool isOpen() const { return descriptor >= 0; }
  bool resize(uint64_t bytes) { return ::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0; }
  bool sync() { return ::fsync(descriptor) == 0; }
  bool writeAt(const void *data, uint64_t bytes, uint64_t offset) {
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
  std::string path;
  int descriptor;
};

} // namespace

SmallVector<nn::ParameterOp> layOutWeights(ModuleOp module, const WeightOptions &options, format::Bundle &bundle) {
  SmallVector<nn::ParameterOp> order;
  llvm::StringSet<> embeddings = findEmbeddings(module), seen;
  uint64_t offset = 0;
  auto take = [&](uint64_t bytes) {
    uint64_t begin = llvm::alignTo(offset, format::tensorAlignment);
    offset = begin + bytes;
    return begin;
  };
  for (auto block : module.getOps<train::BlockOp>()) {
    offset = llvm::alignTo(offset, format::regionAlignment);
    for (auto name : block.getParameters().getAsRange<FlatSymbolRefAttr>()) {
      auto parameter = module.lookupSymbol<nn::ParameterOp>(name);
      if (parameter.getTrainable() || !seen.insert(name.getValue()).second)
        continue;
      RankedTensorType type = parameter.getTensorType();
      uint64_t rows = type.getRank() == 1 ? 1 : type.getDimSize(0), columns = type.getShape().back();
      WeightFormat weightFormat = chooseFormat(parameter, options, embeddings);
      uint64_t groups = getRowGroups(weightFormat, columns);
      format::Weight &weight = *bundle.add_weights();
      weight.set_name(name.getValue().str());
      weight.set_rows(rows);
      weight.set_columns(columns);
      weight.set_element(getElementType(weightFormat));
      weight.set_group(groups ? format::groupSize : 0);
      weight.set_data_offset(take(rows * getRowBytes(weightFormat, columns)));
      weight.set_scales_offset(groups ? take(rows * groups * 2) : 0);
      weight.set_minima_offset(groups ? take(rows * groups * 2) : 0);
      weight.set_transposed(parameter.getTransposed());
      weight.set_rank(type.getRank());
      if (auto aliases = parameter.getAliases())
        for (auto alias : aliases->getAsRange<StringAttr>())
          weight.add_aliases(alias.getValue().str());
      order.push_back(parameter);
    }
  }
  bundle.set_weights_bytes(llvm::alignTo(offset, format::regionAlignment));
  return order;
}

uint64_t countWeightBytes(ModuleOp module, const WeightOptions &options) {
  format::Bundle bundle;
  (void)layOutWeights(module, options, bundle);
  return bundle.weights_bytes();
}

LogicalResult writeWeights(ArrayRef<nn::ParameterOp> parameters, const WeightOptions &options,
                           const format::Bundle &bundle, StringRef path, uint32_t &digest) {
  digest = 0;
  File file(path);
  auto systemError = [&](Location location) {
    return emitError(location) << path << ": " << std::strerror(errno) << "; nothing was written";
  };
  ModuleOp module = nn::ParameterOp(parameters.front())->getParentOfType<ModuleOp>();
  Location unknown = module.getLoc();
  if (!file.isOpen() || !file.resize(bundle.weights_bytes()))
    return systemError(unknown);

  llvm::StringSet<> embeddings = findEmbeddings(module);
  WeightSource source(options.randomSeed);
  std::vector<float> values;
  std::vector<unsigned char> data;
  std::vector<uint16_t> scales, minima;
  for (auto [index, constParameter] : llvm::enumerate(parameters)) {
    nn::ParameterOp parameter = constParameter;
    if (failed(source.open(parameter, index)))
      return failure();
    const format::Weight &weight = bundle.weights(index);
    WeightFormat weightFormat = chooseFormat(parameter, options, embeddings);
    uint64_t rowBytes = getRowBytes(weightFormat, weight.columns()),
             groups = getRowGroups(weightFormat, weight.columns());
    // About a megabyte at a time.
    uint64_t batch = std::clamp<uint64_t>((1 << 18) / weight.columns(), 1, weight.rows());
    values.resize(batch * weight.columns());
    data.resize(batch * rowBytes);
    scales.resize(batch * groups);
    minima.resize(batch * groups);
    for (uint64_t first = 0; first < weight.rows(); first += batch) {
      if (options.isInterrupted())
        return failure();
      uint64_t count = std::min(batch, weight.rows() - first);
      source.readRows(first, count, values.data());
      for (uint64_t i = 0; i < count * weight.columns(); ++i)
        if (!std::isfinite(values[i]))
          return parameter.emitError() << "'" << weight.name() << "' has a value that is not finite (" << values[i]
                                       << ") in row " << first + i / weight.columns() << "; repair the checkpoint";
      for (uint64_t row = 0; row < count; ++row)
        if (!storeRow(weightFormat, values.data() + row * weight.columns(), weight.columns(),
                      data.data() + row * rowBytes, scales.data() + row * groups, minima.data() + row * groups))
          return parameter.emitError() << "'" << weight.name() << "' has values too large to be quantised in row "
                                       << first + row << "; compile with --weights bf16 or f32";
      digest = format::crc32(data.data(), count * rowBytes, digest);
      digest = format::crc32(scales.data(), count * groups * 2, digest);
      digest = format::crc32(minima.data(), count * groups * 2, digest);
      if (!file.writeAt(data.data(), count * rowBytes, weight.data_offset() + first * rowBytes) ||
          !file.writeAt(scales.data(), count * groups * 2, weight.scales_offset() + first * groups * 2) ||
          !file.writeAt(minima.data(), count * groups * 2, weight.minima_offset() + first * groups * 2))
        return systemError(parameter.getLoc());
    }
  }
  return file.sync() ? success() : LogicalResult(systemError(unknown));
}

} // namespace mebp
