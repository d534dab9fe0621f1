// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/WeightSource.h"

#include "format/half.h"
#include "format/random.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace mebp {

namespace {

float readElement(const char *bytes, StringRef element, uint64_t index) {
  if (element == "f32") {
    float value;
    std::memcpy(&value, bytes + 4 * index, sizeof value);
    return value;
  }
  uint16_t value;
  std::memcpy(&value, bytes + 2 * index, sizeof value);
  return element == "bf16" ? format::bfloatToFloat(value) : format::halfToFloat(value);
}

} // namespace

LogicalResult WeightSource::open(nn::ParameterOp parameter, uint64_t index) {
  RankedTensorType type = parameter.getTensorType();
  isVector = type.getRank() == 1;
  rows = isVector ? 1 : type.getDimSize(0);
  columns = type.getShape().back();
  transposed = parameter.getTransposed();
  seed = randomSeed;
  stream = index;
  bytes = nullptr;
  if (auto drawn = parameter.getDrawn()) {
    seed = drawn->getSeed();
    stream = drawn->getStream();
    return success();
  }
  if (auto data = parameter.getData())
    return openFile(parameter, *data);
  if (auto data = parameter.getInlineData()) {
    auto dense = dyn_cast<DenseElementsAttr>(*data);
    if (!dense || !dense.getElementType().isF32())
      return parameter.emitError() << "'" << parameter.getSymName() << "' has inline data of another type than f32";
    inlineValues.assign(dense.value_begin<float>(), dense.value_end<float>());
    bytes = reinterpret_cast<const char *>(inlineValues.data());
    element = "f32";
    return success();
  }
  if (!randomSeed)
    return parameter.emitError() << "'" << parameter.getSymName()
                                 << "' has no data: the model was exported with --shape-only; give --random-weights";
  return success();
}

LogicalResult WeightSource::openFile(nn::ParameterOp parameter, nn::ExternalDataAttr data) {
  element = data.getElement().str();
  if (fileName != data.getFile() || !file) {
    fileName = data.getFile().str();
    auto opened = llvm::MemoryBuffer::getFile(fileName, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!opened)
      return parameter.emitError() << fileName << ": " << opened.getError().message() << "; it has the weights of '"
                                   << parameter.getSymName() << "'";
    file = std::move(*opened);
  }
  uint64_t needed = rows * columns * (element == "f32" ? 4 : 2);
  uint64_t size = file->getBufferSize();
  if (data.getBytes() != needed || needed > size || data.getOffset() > size - needed)
    return parameter.emitError() << fileName << ": cut off: '" << parameter.getSymName() << "' needs " << needed
                                 << " bytes at " << data.getOffset() << ", the file has " << size;
  bytes = file->getBufferStart() + data.getOffset();
  return success();
}

void WeightSource::readRow(uint64_t row, float *out) const {
  if (!bytes) {
    for (uint64_t column = 0; column < columns; ++column)
      out[column] =
          isVector ? 1.0f : format::drawnDeviation * format::randomNormal(*seed, stream, row * columns + column);
  } else if (element == "f32" && !transposed) {
    std::memcpy(out, bytes + 4 * row * columns, 4 * columns);
  } else {
    for (uint64_t column = 0; column < columns; ++column)
      out[column] = readElement(bytes, element, transposed ? column * rows + row : row * columns + column);
  }
}

} // namespace mebp
