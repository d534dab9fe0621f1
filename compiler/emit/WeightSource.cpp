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

uint64_t elementBytes(nn::ExternalDataAttr data) { return data.getElement() == "f32" ? 4 : 2; }

} // namespace

LogicalResult WeightSource::open(nn::ParameterOp parameter, uint64_t index) {
  RankedTensorType type = parameter.getTensorType();
  isVector = type.getRank() == 1;
  rows = isVector ? 1 : type.getDimSize(0);
  columns = type.getShape().back();
  transposed = parameter.getTransposed();
  auto shape = parameter.getShape();
  matrixRows = shape && shape->size() == 3 && !isVector ? rows / shape->front() : rows;
  seed = randomSeed;
  stream = index;
  pieces.clear();
  fileType = nullptr;
  if (parameter.getFileType() && failed(openBlocks(parameter)))
    return failure();
  apart = parameter.getApart().value_or(ArrayRef<int64_t>()).vec();
  if (auto drawn = parameter.getDrawn()) {
    seed = drawn->getSeed();
    stream = drawn->getStream();
    return success();
  }
  if (auto data = parameter.getData())
    return openPiece(parameter, *data, rows);
  if (auto places = parameter.getPieces()) {
    uint64_t found = 0;
    for (auto place : places->getAsRange<nn::ExternalDataAttr>()) {
      if (failed(openPiece(parameter, place, place.getBytes() / (columns * elementBytes(place)))))
        return failure();
      found += pieces.back().rows;
    }
    if (found != rows)
      return parameter.emitError() << "'" << parameter.getSymName() << "' has " << rows << " rows, and its parts "
                                   << found << "; export the model again";
    return success();
  }
  if (auto data = parameter.getInlineData()) {
    auto dense = dyn_cast<DenseElementsAttr>(*data);
    if (!dense || !dense.getElementType().isF32())
      return parameter.emitError() << "'" << parameter.getSymName() << "' has inline data of another type than f32";
    inlineValues.assign(dense.value_begin<float>(), dense.value_end<float>());
    pieces.push_back({rows, reinterpret_cast<const char *>(inlineValues.data()), "f32"});
    return success();
  }
  if (!randomSeed)
    return parameter.emitError() << "'" << parameter.getSymName()
                                 << "' has no data: the model was exported with --shape-only; give --random-weights";
  return success();
}

FailureOr<const llvm::MemoryBuffer *> WeightSource::openFile(nn::ParameterOp parameter, StringRef name) {
  std::unique_ptr<llvm::MemoryBuffer> &file = files[name];
  if (!file) {
    auto opened = llvm::MemoryBuffer::getFile(name, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!opened)
      return parameter.emitError() << name << ": " << opened.getError().message() << "; it has the weights of '"
                                   << parameter.getSymName() << "'";
    file = std::move(*opened);
  }
  return file.get();
}

LogicalResult WeightSource::openBlocks(nn::ParameterOp parameter) {
  const format::FileType &found = *parameter.getFileType();
  blockBytes = columns / found.numbers * found.bytes;
  blocks.clear();
  uint64_t count = 0;
  for (auto place : parameter.getBlocks()->getAsRange<nn::ExternalDataAttr>()) {
    auto file = openFile(parameter, place.getFile());
    if (failed(file))
      return failure();
    const uint64_t size = (*file)->getBufferSize(), own = place.getBytes() / blockBytes;
    if (place.getBytes() != own * blockBytes || place.getBytes() > size || place.getOffset() > size - place.getBytes())
      return parameter.emitError() << place.getFile() << ": cut off: it does not have the blocks of '"
                                   << parameter.getSymName() << "'; export the model again";
    blocks.emplace_back(own, reinterpret_cast<const unsigned char *>((*file)->getBufferStart()) + place.getOffset());
    count += own;
  }
  if (transposed || count != rows)
    return parameter.emitError() << "'" << parameter.getSymName() << "' has other rows than its blocks; export the "
                                 << "model again";
  fileType = &found;
  return success();
}

const unsigned char *WeightSource::getBlocks(uint64_t row) const {
  auto found = blocks.begin();
  for (; row >= found->first; ++found)
    row -= found->first;
  return found->second + row * blockBytes;
}

LogicalResult WeightSource::openPiece(nn::ParameterOp parameter, nn::ExternalDataAttr data, uint64_t count) {
  auto file = openFile(parameter, data.getFile());
  if (failed(file))
    return failure();
  uint64_t needed = count * columns * elementBytes(data), size = (*file)->getBufferSize();
  if (data.getBytes() != needed || needed > size || data.getOffset() > size - needed)
    return parameter.emitError() << data.getFile() << ": cut off: '" << parameter.getSymName() << "' needs " << needed
                                 << " bytes at " << data.getOffset() << ", the file has " << size;
  pieces.push_back({count, (*file)->getBufferStart() + data.getOffset(), data.getElement().str()});
  return success();
}

void WeightSource::readRow(uint64_t row, float *out) const {
  if (!apart.empty() && row >= static_cast<uint64_t>(apart[0]) && row < static_cast<uint64_t>(apart[0] + apart[1])) {
    std::fill_n(out, columns, 0.0f);
    return;
  }
  if (pieces.empty()) {
    for (uint64_t column = 0; column < columns; ++column)
      out[column] =
          isVector ? 1.0f : format::drawnDeviation * format::randomNormal(*seed, stream, row * columns + column);
    return;
  }
  const Piece *found = &pieces.front();
  for (; row >= found->rows; ++found)
    row -= found->rows;
  const Piece &piece = *found;
  if (piece.element == "f32" && !transposed) {
    std::memcpy(out, piece.bytes + 4 * row * columns, 4 * columns);
  } else {
    const uint64_t first = row / matrixRows * matrixRows * columns + row % matrixRows; // of the transpose
    for (uint64_t column = 0; column < columns; ++column)
      out[column] =
          readElement(piece.bytes, piece.element, transposed ? first + column * matrixRows : row * columns + column);
  }
}

} // namespace mebp
