// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OnnxFile.h"
#include "compiler/import/ParseMessage.h"
#include "format/json_depth.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mebp;

static constexpr int64_t kOldestOpset = 18, kNewestOpset = 23;
/// A layer has a hundred at most. Each becomes kilobytes of operations.
static constexpr int kMostNodes = 100000;

/// What ONNX has no op for, and our exporter writes as one node: a domain of our own, its version, and its ops.
static constexpr StringRef kOwnDomain = "mebp";
static constexpr int64_t kOwnVersion = 1;
static constexpr StringRef kOwnOps[] = {"CausalConv", "GatedDelta"};

static bool isDefaultDomain(StringRef domain) { return domain.empty() || domain == "ai.onnx"; }

/// What a file is that begins like a text; empty for anything binary.
static StringRef describeText(StringRef bytes) {
  StringRef head = bytes.take_front(512);
  if (head.starts_with("version https://git-lfs"))
    return "a Git LFS pointer, not the model itself; run git lfs pull";
  if (!llvm::all_of(head, [](unsigned char c) { return llvm::isPrint(c) || llvm::isSpace(c) || c >= 0x80; }))
    return "";
  return head.ltrim().starts_with("<") ? "a web page, not an ONNX model; download the model again"
                                       : "a text file, not an ONNX model";
}

Location OnnxFile::getLocation() const { return FileLineColLoc::get(&context, path, 0, 0); }

InFlightDiagnostic OnnxFile::emitError() const { return mlir::emitError(getLocation()) << path << ": "; }

std::unique_ptr<OnnxFile> OnnxFile::read(StringRef path, MLIRContext &context) {
  std::unique_ptr<OnnxFile> file(new OnnxFile(path, context));
  if (failed(file->parse()) || failed(file->check()) || failed(file->readAliases()) ||
      failed(file->readNames("mebp.bare", file->bare)) || failed(file->readNames("mebp.whole", file->whole)) ||
      failed(file->readNames("mebp.classes", file->classes)) || failed(file->readBlocks()) ||
      failed(file->checkPlaces()))
    return nullptr;
  return file;
}

LogicalResult OnnxFile::parse() {
  if (llvm::sys::fs::is_directory(path))
    return emitError() << "is a folder; name the model.onnx in it";
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path))
    return emitError() << "is not a regular file; name the model.onnx";
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return emitError() << "cannot be read: " << buffer.getError().message();
  StringRef bytes = (*buffer)->getBuffer();
  if (bytes.empty())
    return emitError() << "is empty; export the model again";
  if (bytes.size() > size_t(INT32_MAX))
    return emitError() << "is over 2 GiB, which ONNX cannot hold; export the weights as external data";
  if (StringRef text = describeText(bytes); !text.empty())
    return emitError() << "is " << text;
  switch (parseMessage({bytes.data(), bytes.size()}, model)) {
  case format::Parsed::Yes:
    break;
  case format::Parsed::No:
    return emitError() << "is cut off or not an ONNX model; export or download it again";
  case format::Parsed::TooLarge:
    return emitError() << "has more nodes than a model of its size; export or download it again";
  }
  return success();
}

LogicalResult OnnxFile::check() {
  if (!model.has_graph() || model.graph().node_size() == 0)
    return emitError() << "has no graph; export the model again";
  if (model.graph().node_size() > kMostNodes)
    return emitError() << "has " << model.graph().node_size() << " nodes, more than the " << kMostNodes
                       << " that are read; export a decoder model";
  int64_t opset = 0;
  for (const onnx::OperatorSet &set : model.opset_import())
    if (isDefaultDomain(set.domain()))
      opset = set.version();
  if (opset < kOldestOpset || opset > kNewestOpset)
    return emitError() << "uses ONNX opset " << opset << "; export with opset " << kOldestOpset << " to "
                       << kNewestOpset;
  if (model.graph().sparse_initializer_size() > 0)
    return emitError() << "has sparse initializers; export dense weights";
  for (const onnx::OperatorSet &set : model.opset_import())
    if (set.domain() == kOwnDomain && set.version() != kOwnVersion)
      return emitError() << "uses version " << set.version() << " of mebp's own ops, and this mebpc knows "
                         << kOwnVersion << "; export the model again";
  for (const onnx::Node &node : model.graph().node())
    if (bool isOwn = llvm::is_contained(kOwnOps, StringRef(node.op_type()));
        isOwn ? node.domain() != kOwnDomain : !isDefaultDomain(node.domain()))
      return emitError() << "node '" << node.name() << "': op '" << node.op_type() << "' is of domain '"
                         << node.domain() << "', which is not standard ONNX; export without it";
  return success();
}

/// Metadata in JSON; null where it is none.
static llvm::json::Value parseJson(StringRef text) {
  auto json = llvm::json::parse(format::isDeepJson(text) ? "" : text);
  if (json)
    return std::move(*json);
  llvm::consumeError(json.takeError());
  return nullptr;
}

LogicalResult OnnxFile::readNames(StringRef key, std::vector<std::string> &out) const {
  StringRef text = getMetadata(key);
  if (text.empty())
    return success();
  llvm::json::Value json = parseJson(text);
  if (!json.getAsArray())
    return emitError() << "has metadata '" << key << "' that is not a JSON array; export the model again";
  for (const llvm::json::Value &name : *json.getAsArray())
    if (auto text = name.getAsString())
      out.push_back(text->str());
  return success();
}

LogicalResult OnnxFile::readAliases() {
  StringRef text = getMetadata("mebp.tied");
  if (text.empty())
    return success();
  llvm::json::Value json = parseJson(text);
  const llvm::json::Object *tied = json.getAsObject();
  if (!tied)
    return emitError() << "has metadata 'mebp.tied' that is not a JSON object; export the model again";
  for (const auto &[name, alias] : *tied)
    if (auto other = alias.getAsString())
      aliases.push_back({name.str(), {other->str()}});
  return success();
}

LogicalResult OnnxFile::checkPlaces() const {
  StringRef text = getMetadata("mebp.gguf");
  if (!text.empty() && !parseJson(text).getAsObject())
    return emitError() << "has metadata 'mebp.gguf' that is not a JSON object; export the model again";
  return success();
}

LogicalResult OnnxFile::readBlocks() {
  StringRef text = getMetadata("mebp.blocks");
  if (text.empty())
    return success();
  llvm::json::Value json = parseJson(text);
  const llvm::json::Object *places = json.getAsObject();
  auto refuse = [&] {
    return emitError() << "has metadata 'mebp.blocks' that names no blocks; export the model again";
  };
  if (!places)
    return refuse();
  for (const auto &[name, value] : *places) {
    const llvm::json::Object *fields = value.getAsObject();
    if (!fields)
      return refuse();
    auto type = fields->getString("type"), location = fields->getString("file");
    auto offset = fields->getInteger("offset"), bytes = fields->getInteger("bytes");
    if (!type || !format::findByName(format::fileTypes, *type) || !location || !offset || *offset < 0 || !bytes ||
        *bytes < 0)
      return refuse();
    blocks[name] = {type->str(), {location->str(), static_cast<uint64_t>(*offset), static_cast<uint64_t>(*bytes)}};
  }
  return success();
}

StringRef OnnxFile::getMetadata(StringRef key) const {
  for (const onnx::Property &property : model.metadata_props())
    if (property.key() == key)
      return property.value();
  return "";
}

std::optional<int64_t> OnnxFile::getMetadataNumber(StringRef key) const {
  int64_t number = 0;
  if (getMetadata(key).getAsInteger(10, number) || number <= 0)
    return std::nullopt;
  return number;
}

ArrayRef<std::string> OnnxFile::getAliases(StringRef name) const {
  for (const auto &[tied, others] : aliases)
    if (tied == name)
      return others;
  return {};
}
