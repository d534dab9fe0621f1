// SPDX-License-Identifier: Apache-2.0
//
// The bytes of an ONNX file's tensors: typed fields, raw data, or a place in a file beside it.
#include "compiler/import/OnnxFile.h"
#include "dialects/nn/Parameters.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <cstring>

using namespace mlir;
using namespace mebp;

static unsigned elementBytes(int type) {
  switch (type) {
  case element::u8:
  case element::i8:
  case element::boolean:
    return 1;
  case element::u16:
  case element::i16:
  case element::f16:
  case element::bf16:
    return 2;
  case element::f32:
  case element::i32:
  case element::u32:
    return 4;
  default:
    return 8;
  }
}

std::optional<HostTensor::Kind> element::kind(int type) {
  switch (type) {
  case f32:
  case f16:
  case f64:
  case bf16:
    return HostTensor::Kind::Float;
  case u8:
  case i8:
  case u16:
  case i16:
  case i32:
  case i64:
  case u32:
  case u64:
    return HostTensor::Kind::Integer;
  case boolean:
    return HostTensor::Kind::Boolean;
  default:
    return std::nullopt;
  }
}

std::string element::name(int type) {
  switch (type) {
  case f32:
    return "f32";
  case f16:
    return "f16";
  case f64:
    return "f64";
  case bf16:
    return "bf16";
  default:
    return "number " + std::to_string(type);
  }
}

template <typename T> static T load(const char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

static double decode(int type, const char *bytes) {
  switch (type) {
  case element::u8:
  case element::boolean:
    return load<uint8_t>(bytes);
  case element::i8:
    return load<int8_t>(bytes);
  case element::u16:
    return load<uint16_t>(bytes);
  case element::i16:
    return load<int16_t>(bytes);
  case element::i32:
    return load<int32_t>(bytes);
  case element::u32:
    return load<uint32_t>(bytes);
  case element::i64:
    return static_cast<double>(load<int64_t>(bytes));
  case element::u64:
    return static_cast<double>(load<uint64_t>(bytes));
  case element::f32:
    return load<float>(bytes);
  case element::f64:
    return load<double>(bytes);
  default: {
    const llvm::fltSemantics &semantics = type == element::bf16 ? APFloat::BFloat() : APFloat::IEEEhalf();
    return APFloat(semantics, APInt(16, load<uint16_t>(bytes))).convertToDouble();
  }
  }
}

/// Little-endian bytes of a typed field's numbers.
template <typename T, typename Field> static std::string pack(const Field &field) {
  std::string bytes(field.size() * sizeof(T), '\0');
  for (int i = 0; i < field.size(); ++i) {
    T value = static_cast<T>(field.Get(i));
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

static std::string packTypedField(const onnx::Tensor &tensor) {
  switch (tensor.data_type()) {
  case element::f32:
    return pack<float>(tensor.float_data());
  case element::f64:
    return pack<double>(tensor.double_data());
  case element::i64:
    return pack<int64_t>(tensor.int64_data());
  case element::u32:
    return pack<uint32_t>(tensor.uint64_data());
  case element::u64:
    return pack<uint64_t>(tensor.uint64_data());
  case element::i32:
    return pack<int32_t>(tensor.int32_data());
  case element::u8:
  case element::i8:
  case element::boolean:
    return pack<uint8_t>(tensor.int32_data());
  default:
    return pack<uint16_t>(tensor.int32_data());
  }
}

static bool leavesFolder(StringRef location) {
  return llvm::is_contained(llvm::make_range(llvm::sys::path::begin(location), llvm::sys::path::end(location)), "..");
}

/// Whether a folder on the way from the model to its data is a link that leads elsewhere.
static bool leavesByLink(StringRef model, StringRef data) {
  SmallString<128> folder(llvm::sys::path::parent_path(model)), inside, real;
  if (folder.empty())
    folder = ".";
  if (llvm::sys::fs::real_path(folder, inside) || llvm::sys::fs::real_path(data, real))
    return true;
  return llvm::sys::path::parent_path(real) != inside && !StringRef(real).starts_with((inside + "/").str());
}

InFlightDiagnostic OnnxFile::emitTensorError(const onnx::Tensor &tensor) const {
  return emitError() << "tensor '" << tensor.name() << "' ";
}

FailureOr<uint64_t> OnnxFile::getBytes(const onnx::Tensor &tensor) const {
  if (!element::kind(tensor.data_type()))
    return emitTensorError(tensor) << "has element type " << element::name(tensor.data_type())
                                   << ", which is not read; export in f32, bf16 or f16";
  auto count = elementCount({tensor.dims().data(), size_t(tensor.dims_size())});
  if (!count || *count > (int64_t(1) << 40))
    return emitTensorError(tensor) << "has an impossible shape; export the model again";
  return uint64_t(*count) * elementBytes(tensor.data_type());
}

FailureOr<OnnxFile::Place> OnnxFile::locate(const onnx::Tensor &tensor) const {
  auto bytes = getBytes(tensor);
  if (failed(bytes))
    return failure();
  Place place;
  place.bytes = *bytes;
  StringRef location;
  std::optional<uint64_t> length;
  for (const onnx::Property &property : tensor.external_data()) {
    uint64_t number = 0;
    bool isNumber = !StringRef(property.value()).getAsInteger(10, number);
    if (property.key() == "location")
      location = property.value();
    else if (property.key() == "offset" && isNumber)
      place.offset = number;
    else if (property.key() == "length" && isNumber)
      length = number;
    else if (property.key() == "offset" || property.key() == "length")
      return emitTensorError(tensor) << "has external data with " << property.key() << " '" << property.value()
                                     << "', which is not a number; export the model again";
  }
  if (length && *length != place.bytes)
    return emitTensorError(tensor) << "has " << *length << " bytes of external data where its shape needs "
                                   << place.bytes << "; export the model again";
  return locate(tensor, location, place);
}

FailureOr<OnnxFile::Place> OnnxFile::locate(const onnx::Tensor &tensor, StringRef location, Place place) const {
  if (location.empty())
    return emitTensorError(tensor) << "has external data without a location; export the model again";
  if (llvm::sys::path::is_absolute(location) || leavesFolder(location))
    return emitTensorError(tensor) << "has external data in '" << location
                                   << "', outside the model's folder; put the file beside the model";

  SmallString<128> file(llvm::sys::path::parent_path(path));
  llvm::sys::path::append(file, location);
  place.file = file.str().str();
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(file, status, /*follow=*/false) || !llvm::sys::fs::exists(status))
    return emitTensorError(tensor) << "has its data in '" << place.file
                                   << "', which is not there; put it beside the model";
  if (llvm::sys::fs::is_symlink_file(status))
    return emitTensorError(tensor) << "has its data in '" << place.file
                                   << "', a symbolic link, which ONNX forbids; put the file itself there";
  if (!llvm::sys::fs::is_regular_file(status))
    return emitTensorError(tensor) << "has its data in '" << place.file << "', which is not a file";
  if (leavesByLink(path, place.file))
    return emitTensorError(tensor) << "has its data in '" << place.file
                                   << "', outside the model's folder by a link; put the file beside the model";
  if (place.offset > status.getSize() || place.bytes > status.getSize() - place.offset)
    return emitTensorError(tensor) << "ends at byte " << place.offset + place.bytes << " of '" << place.file
                                   << "', which has only " << status.getSize() << "; copy that file again";
  return place;
}

FailureOr<std::string> OnnxFile::getInlineBytes(const onnx::Tensor &tensor) const {
  auto bytes = getBytes(tensor);
  if (failed(bytes))
    return failure();
  std::string data = tensor.has_raw_data() ? tensor.raw_data() : packTypedField(tensor);
  if (data.size() != *bytes)
    return emitTensorError(tensor) << "has " << data.size() << " bytes where its shape needs " << *bytes
                                   << "; export the model again";
  return data;
}

FailureOr<HostTensor> OnnxFile::readConstant(const onnx::Tensor &tensor) const {
  auto needed = getBytes(tensor);
  if (failed(needed))
    return failure();
  const unsigned size = elementBytes(tensor.data_type());
  if (static_cast<int64_t>(*needed / size) > kLargestTable)
    return emitTensorError(tensor) << "is a constant of " << *needed / size << " elements, more than are read";
  std::string bytes;
  if (tensor.data_location() == 1) {
    auto place = locate(tensor);
    if (failed(place))
      return failure();
    auto slice = llvm::MemoryBuffer::getFileSlice(place->file, place->bytes, place->offset);
    if (!slice)
      return emitTensorError(tensor) << "cannot be read: " << slice.getError().message();
    bytes = (*slice)->getBuffer().str();
  } else {
    auto inlineBytes = getInlineBytes(tensor);
    if (failed(inlineBytes))
      return failure();
    bytes = std::move(*inlineBytes);
  }
  HostTensor result;
  result.kind = *element::kind(tensor.data_type());
  result.shape.assign(tensor.dims().begin(), tensor.dims().end());
  result.data.reserve(bytes.size() / size);
  for (size_t at = 0; at < bytes.size(); at += size)
    result.data.push_back(decode(tensor.data_type(), bytes.data() + at));
  return result;
}

FailureOr<nn::ExternalDataAttr> OnnxFile::getPlace(const onnx::Tensor &tensor) const {
  if (tensor.data_type() == element::f64 || tensor.data_location() != 1)
    return emitTensorError(tensor) << "is a part of a weight, but not f32, bf16 or f16 in a file beside the model; "
                                   << "export the model again";
  auto place = locate(tensor);
  if (failed(place))
    return failure();
  return nn::ExternalDataAttr::get(&context, place->file, place->offset, place->bytes,
                                   element::name(tensor.data_type()));
}

FailureOr<nn::ExternalDataAttr> OnnxFile::getBlocks(const onnx::Tensor &tensor) const {
  const auto &[name, named] = blocks.find(tensor.name())->second;
  const format::FileType &type = *format::findByName(format::fileTypes, name);
  auto elements = elementCount({tensor.dims().data(), size_t(tensor.dims_size())});
  const uint64_t columns = tensor.dims_size() > 1 ? uint64_t(*std::prev(tensor.dims().end())) : 0;
  if (!elements || columns == 0 || columns % type.numbers != 0 ||
      named.bytes != uint64_t(*elements) / type.numbers * type.bytes)
    return emitTensorError(tensor) << "has " << named.bytes << " bytes of " << name << ", which are not its shape's; "
                                   << "export the model again";
  auto place = locate(tensor, named.file, named);
  if (failed(place))
    return failure();
  return nn::ExternalDataAttr::get(&context, place->file, place->offset, place->bytes, name);
}

LogicalResult OnnxFile::attachData(const onnx::Tensor &tensor, nn::ParameterOp parameter) const {
  Builder builder(&context);
  if (tensor.data_type() == element::f64)
    return emitTensorError(tensor) << "is a weight in f64; export in f32, bf16 or f16";
  if (tensor.data_location() == 1) {
    // A graph that was exported from a configuration alone refers to a file that nobody has.
    if (getMetadata("mebp.shape_only") == "1")
      return success();
    auto place = locate(tensor);
    if (failed(place))
      return failure();
    parameter.setDataAttr(nn::ExternalDataAttr::get(&context, place->file, place->offset, place->bytes,
                                                    element::name(tensor.data_type())));
    return success();
  }
  auto bytes = getInlineBytes(tensor);
  if (failed(bytes))
    return failure();
  Type type = tensor.data_type() == element::f32   ? builder.getF32Type()
              : tensor.data_type() == element::f16 ? Type(builder.getF16Type())
                                                   : Type(builder.getBF16Type());
  auto stored = RankedTensorType::get(ArrayRef<int64_t>(tensor.dims().data(), tensor.dims_size()), type);
  parameter.setInlineDataAttr(
      DenseElementsAttr::getFromRawBuffer(stored, ArrayRef<char>(bytes->data(), bytes->size())));
  return success();
}
