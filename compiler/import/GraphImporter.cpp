// SPDX-License-Identifier: Apache-2.0
//
// ONNX graph -> module. What depends on constants and positions alone is evaluated on the way, so every shape is known;
// only constants that an activation meets become ops. A float initializer is a parameter, unless cosines or sines are
// taken of what is made from it (inverse frequencies) or it is a single number. Those that a softplus is taken of are
// parameters: each layer has its own.
#include "compiler/import/GraphImporter.h"
#include "compiler/import/Evaluate.h"
#include "compiler/import/MaterializeConstant.h"
#include "dialects/nn/ImportOps.h"
#include "dialects/nn/Locations.h"
#include "dialects/nn/Parameters.h"
#include "format/tasks.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mebp;

using Kind = HostTensor::Kind;

/// Of all constants together, in seconds and gigabytes at most. What depends on each pair of positions takes a few
/// tables.
static constexpr int64_t kMostEvaluated = 8 * kLargestTable;

GraphImporter::GraphImporter(const OnnxFile &file, MLIRContext &context, std::optional<int64_t> wanted)
    : file(file), context(context), wanted(wanted), builder(&context) {}

OwningOpRef<ModuleOp> GraphImporter::run() {
  module = ModuleOp::create(file.getLocation());
  for (const onnx::Node &node : file.getGraph().node())
    for (const std::string &input : node.input())
      ++entries[input].uses;
  for (const onnx::ValueInfo &output : file.getGraph().output())
    ++entries[output.name()].uses;
  for (const onnx::ValueInfo &info : file.getGraph().value_info())
    declared[info.name()] = &info;
  if (failed(declareInitializers()) || failed(declareInputs()) || failed(keepNumbers()))
    return nullptr;
  for (int index = 0; index < file.getGraph().node_size(); ++index)
    if (failed(importNode(OnnxNode(file, index))))
      return nullptr;
  if (failed(finish()))
    return nullptr;
  return std::move(module);
}

/// The names that nodes of these `ops` are computed from; with `through`, by nodes of those alone.
llvm::StringSet<> GraphImporter::findSources(ArrayRef<StringRef> ops, ArrayRef<StringRef> through) const {
  llvm::StringSet<> sources;
  const auto &nodes = file.getGraph().node();
  for (int index = nodes.size(); index-- > 0;) {
    const onnx::Node &node = nodes.Get(index);
    bool leads = llvm::is_contained(ops, node.op_type());
    if (through.empty() || llvm::is_contained(through, node.op_type()))
      for (const std::string &output : node.output())
        leads |= sources.contains(output);
    // A size is no number of what it is the size of.
    if (leads && node.op_type() != "Shape" && node.op_type() != "Size")
      for (const std::string &input : node.input())
        sources.insert(input);
  }
  return sources;
}

LogicalResult GraphImporter::declareInitializers() {
  // xIELU's alphas have one element each, and only scales on their way to a Softplus; other such tensors are numbers.
  llvm::StringSet<> tables = findSources({"Cos", "Sin"}),
                    bends = findSources({"Softplus"}, {"Mul", "Cast", "Identity"});
  for (const onnx::Tensor &tensor : file.getGraph().initializer()) {
    Entry &entry = entries[tensor.name()];
    if (entry.initializer)
      return file.emitError() << "has two initializers named '" << tensor.name() << "'; export the model again";
    entry.initializer = &tensor;
    auto count = elementCount({tensor.dims().data(), size_t(tensor.dims_size())});
    if (!count)
      return file.emitError() << "tensor '" << tensor.name() << "' has an impossible shape; export the model again";
    const bool isNumber = count == 1 && !(tensor.dims_size() > 0 && bends.contains(tensor.name()));
    entry.isParameter = element::kind(tensor.data_type()).value_or(Kind::Float) == Kind::Float && !isNumber &&
                        !tables.contains(tensor.name());
  }
  return success();
}

/// A number that lies in the model's own file, as what Gemma 4 multiplies each layer by, is lost with the graph.
LogicalResult GraphImporter::keepNumbers() {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(main);
  for (const onnx::Tensor &tensor : file.getGraph().initializer()) {
    const auto kind = element::kind(tensor.data_type()).value_or(Kind::Integer);
    ArrayRef<int64_t> shape(tensor.dims().data(), tensor.dims_size());
    if (entries[tensor.name()].isParameter || tensor.data_location() != 1 || shape.empty() || kind != Kind::Float ||
        elementCount(shape) != 1)
      continue;
    RankedTensorType type = tensorType(&context, {1}, Kind::Float);
    auto parameter = nn::ParameterOp::create(builder, file.getLocation(), tensor.name(), type);
    parameter.setNumber(true);
    if (shape.size() > 1)
      parameter.setShape(shape);
    if (failed(file.attachData(tensor, parameter)))
      return failure();
  }
  return success();
}

LogicalResult GraphImporter::finish() {
  const onnx::ValueInfo *logits = nullptr;
  for (const onnx::ValueInfo &output : file.getGraph().output())
    if (!logits || output.name() == "logits")
      logits = &output;
  Value value = logits ? entries[logits->name()].value : Value();
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
  if (!type || !isa<FloatType>(type.getElementType()) || type.getRank() != 3 || type.getDimSize(0) != batch ||
      type.getDimSize(1) != sequence)
    return file.emitError() << "output '" << (logits ? logits->name() : "") << "' is not logits [" << batch << ", "
                            << sequence << ", vocabulary]; export a causal language model without a cache";
  func::ReturnOp::create(builder, file.getLocation(), value);
  main.setFunctionType(builder.getFunctionType(main.getArgumentTypes(), {type}));

  StringRef name = file.getMetadata("mebp.model");
  auto set = [&](StringRef key, Attribute attribute) { module->getOperation()->setAttr(key, attribute); };
  set("mebp.name", builder.getStringAttr(name.empty() ? llvm::sys::path::stem(file.getPath()) : name));
  set("mebp.batch", builder.getI64IntegerAttr(batch));
  set("mebp.sequence", builder.getI64IntegerAttr(sequence));
  int64_t outputs = type.getDimSize(2), vocabulary = outputs;
  ArrayRef<std::string> classes = file.getClasses();
  StringRef taskName = file.getMetadata("mebp.task");
  if (taskName.empty())
    taskName = classes.empty() ? "causal" : "classify";
  const format::TaskTraits *task = format::findTask(taskName);
  if (!task)
    return file.emitError() << "is for --task " << taskName << ", which this mebpc does not know; use a newer one";
  if (task->hasClasses == classes.empty())
    return file.emitError() << "is for --task " << taskName << " and names " << classes.size()
                            << " classes; export the model again";
  if (!task->isOfNextTokens)
    set("mebp.task", builder.getStringAttr(taskName));
  if (!classes.empty()) {
    vocabulary = file.getMetadataNumber("mebp.vocabulary").value_or(0);
    if (static_cast<int64_t>(classes.size()) != outputs || vocabulary == 0)
      return file.emitError() << "names " << classes.size() << " classes and a vocabulary of " << vocabulary
                              << " where it gives " << outputs << " logits; export the model again";
    set("mebp.classes", builder.getStrArrayAttr(SmallVector<StringRef>(classes.begin(), classes.end())));
  }
  set("mebp.vocabulary", builder.getI64IntegerAttr(vocabulary));
  if (StringRef part = file.getMetadata("mebp.text_part"); !part.empty())
    set("mebp.text_part", builder.getStringAttr(part));
  if (StringRef places = file.getMetadata("mebp.gguf"); !places.empty())
    set("mebp.gguf", builder.getStringAttr(places));
  if (StringRef weights = file.getMetadata("mebp.weights"); !weights.empty())
    set("mebp.weights", builder.getStringAttr(weights));
  auto firstToken = file.getMetadataNumber("mebp.first_new_token"), tokens = file.getMetadataNumber("mebp.new_tokens");
  if (firstToken && tokens)
    set("mebp.new_tokens", builder.getDenseI64ArrayAttr({*firstToken, *tokens}));
  if (auto limit = file.getMetadataNumber("mebp.sequence_limit"))
    set("mebp.sequence_limit", builder.getI64IntegerAttr(*limit));
  return success();
}

LogicalResult GraphImporter::importNode(const OnnxNode &node) {
  auto inputs = gatherInputs(node);
  if (failed(inputs))
    return failure();
  if (node.getProto().output_size() == 0)
    return node.emitError() << "has no outputs; export the model again";
  for (const std::string &output : node.getProto().output())
    if (auto found = entries.find(output);
        found != entries.end() &&
        (found->second.value || found->second.constant || found->second.initializer || !found->second.parts.empty()))
      return node.emitError() << "computes '" << output << "', which is computed already; export the model again";

  bool isConstant = llvm::all_of(*inputs, [](Entry *entry) { return !entry || entry->constant; });
  if (isConstant && node.getOp() != "Shape" && node.getOp() != "Size") {
    SmallVector<const HostTensor *> constants;
    for (size_t i = 0; i < inputs->size(); ++i)
      constants.push_back(getConstant(*inputs, i));
    auto results = evaluateNode(node, constants);
    if (failed(results) || failed(count(node, constants, *results)))
      return failure();
    for (auto [output, result] : llvm::zip(node.getProto().output(), *results))
      define(output, std::move(result));
  } else if (failed(importOp(node, *inputs))) {
    return failure();
  }
  if (const onnx::Attribute *ignored = node.findIgnored())
    return node.emitError() << "has an attribute '" << ignored->name()
                            << "', which is not supported; export without it";
  for (const std::string &output : node.getProto().output())
    if (failed(checkShape(node, output)))
      return failure();
  for (const std::string &input : node.getProto().input())
    release(input);
  return success();
}

LogicalResult GraphImporter::refuse(const OnnxNode &node) {
  llvm::StringSet<> unknown; // the results of this node, and what is computed of them
  auto isActivation = [&](StringRef name) {
    auto found = entries.find(name);
    return unknown.contains(name) || (found != entries.end() && (found->second.value || found->second.isParameter ||
                                                                 !found->second.parts.empty()));
  };
  SmallVector<StringRef> others;
  bool isReached = false;
  for (const onnx::Node &each : file.getGraph().node()) {
    StringRef op = each.op_type();
    isReached |= &each == &node.getProto();
    if (!isReached || op == "Shape" || op == "Size" || llvm::none_of(each.input(), isActivation))
      continue;
    for (const std::string &output : each.output())
      unknown.insert(output);
    if (op != node.getOp() && !findMethod(op) && !llvm::is_contained(others, op))
      others.push_back(op);
  }
  // Sums of decays, and which rows come before others.
  auto isOfRecurrence = [](StringRef op) { return op == "CumSum" || op == "Trilu"; };
  const StringRef advice = isOfRecurrence(node.getOp()) || llvm::any_of(others, isOfRecurrence)
                               ? "; a recurrence that another exporter has spelled out is taken from mebp export"
                               : "";
  if (others.empty())
    return node.emitError() << "is not supported; mebp cannot train a model that needs it yet" << advice;
  return node.emitError() << "is not supported, " << nameOthers(others)
                          << " further on; mebp cannot train a model that needs them yet" << advice;
}

LogicalResult GraphImporter::count(const OnnxNode &node, ArrayRef<const HostTensor *> inputs,
                                   ArrayRef<HostTensor> results) {
  size_t most = 0, inner = 1;
  for (const HostTensor *input : inputs)
    most = std::max(most, input ? input->data.size() : 0);
  for (const HostTensor &result : results)
    most = std::max(most, result.data.size());
  if (node.getOp() == "MatMul")
    inner = std::max<int64_t>(inputs[0]->shape.back(), 1);
  evaluated += static_cast<int64_t>(most * inner);
  if (evaluated > kMostEvaluated)
    return node.emitError() << "takes what is computed of constants beyond " << kMostEvaluated
                            << " elements; export a shorter sequence and give mebpc --seq-len";
  return success();
}

LogicalResult GraphImporter::checkShape(const OnnxNode &node, StringRef output) {
  const onnx::ValueInfo *info = declared.lookup(output);
  const Entry &entry = entries[output];
  if (!entry.value && !entry.constant)
    return success();
  Extents shape = getShape(entry);
  if (!elementCount(shape))
    return node.emitError() << "makes '" << output << "' of a shape that is impossible; export the model again";
  if (!info || !info->type().has_tensor_type() || !info->type().tensor_type().has_shape())
    return success();
  const onnx::Shape &expected = info->type().tensor_type().shape();
  bool agrees = expected.dim_size() == static_cast<int>(shape.size());
  for (int axis = 0; agrees && axis < expected.dim_size(); ++axis)
    agrees = !expected.dim(axis).has_dim_value() || expected.dim(axis).dim_value() == shape[axis];
  if (agrees)
    return success();
  auto diagnostic = node.emitError() << "makes '" << output << "' of shape [";
  llvm::interleaveComma(shape, diagnostic);
  return diagnostic << "], but the file declares another; export the model again";
}

/// Large tables live no longer than they are read.
void GraphImporter::release(StringRef name) {
  auto found = entries.find(name);
  if (found != entries.end() && --found->second.uses == 0 && found->second.constant)
    found->second.constant = nullptr;
}

FailureOr<GraphImporter::Entries> GraphImporter::gatherInputs(const OnnxNode &node) {
  Entries inputs;
  for (const std::string &name : node.getProto().input()) {
    if (name.empty()) {
      inputs.push_back(nullptr);
      continue;
    }
    Entry &entry = entries[name];
    if (entry.initializer && !entry.isParameter && !entry.constant) {
      auto constant = file.readConstant(*entry.initializer);
      if (failed(constant))
        return failure();
      entry.constant = std::make_shared<HostTensor>(std::move(*constant));
    }
    if (!entry.value && !entry.constant && !entry.isParameter && entry.parts.empty())
      return node.emitError() << "reads '" << name << "', which nothing before it makes; export the model again";
    if (!entry.parts.empty() && node.getOp() != "SequenceAt")
      return node.emitError() << "reads a sequence of tensors, which only SequenceAt may";
    inputs.push_back(&entry);
  }
  while (!inputs.empty() && !inputs.back())
    inputs.pop_back();
  return inputs;
}

const HostTensor *GraphImporter::getConstant(Entries &inputs, size_t index) const {
  return index < inputs.size() && inputs[index] ? inputs[index]->constant.get() : nullptr;
}

Value GraphImporter::getValue(const OnnxNode &node, Entry &entry) {
  if (entry.value)
    return entry.value;
  if (entry.isParameter)
    return entry.value = makeParameter(node, *entry.initializer);
  entry.value = materializeConstant(builder, node.getLocation(), *entry.constant, sequence);
  if (!entry.value)
    node.emitError() << "reads a constant table of " << entry.constant->data.size()
                     << " elements that is neither a causal mask, a bias by position nor a rotary table; export "
                        "without it";
  return entry.value;
}

LogicalResult GraphImporter::getValues(const OnnxNode &node, Entries &inputs, SmallVectorImpl<Value> &values) {
  for (Entry *entry : inputs) {
    if (!entry)
      return node.emitError() << "leaves out an optional input before another, which is not supported";
    Value value = getValue(node, *entry);
    if (!value)
      return failure();
    values.push_back(value);
  }
  return success();
}

RankedTensorType GraphImporter::getType(const Entry &entry) const {
  if (entry.constant)
    return tensorType(&context, entry.constant->shape, entry.constant->kind);
  if (entry.value)
    return cast<RankedTensorType>(entry.value.getType());
  const onnx::Tensor &tensor = *entry.initializer;
  return tensorType(&context, {tensor.dims().data(), size_t(tensor.dims_size())}, Kind::Float);
}

Extents GraphImporter::getShape(const Entry &entry) const { return Extents(getType(entry).getShape()); }

/// A linear layer's weight that an exporter has transposed has lost its name ("onnx::MatMul_12", "val_7"); the module
/// that reads it has one.
std::string GraphImporter::nameParameter(const OnnxNode &node, const onnx::Tensor &tensor) {
  StringRef scope = nn::getScope(node.getLocation());
  bool isProduct = node.getOp() == "MatMul" || node.getOp() == "Gemm";
  std::string name = (scope + ".weight").str();
  bool isFree = !entries.contains(name) && !module->lookupSymbol(name);
  return isProduct && tensor.dims_size() == 2 && !scope.empty() && !StringRef(tensor.name()).contains('.') && isFree
             ? name
             : tensor.name();
}

Value GraphImporter::makeParameter(const OnnxNode &node, const onnx::Tensor &tensor) {
  ArrayRef<int64_t> shape(tensor.dims().data(), tensor.dims_size());
  if (tensor.name() == main.getName()) {
    file.emitError() << "has a tensor named '" << tensor.name() << "', as the graph is called here; rename it";
    return {};
  }
  if (auto count = elementCount(shape); !count || *count == 0) {
    node.emitError() << "reads '" << tensor.name() << "', whose shape is impossible; export the model again";
    return {};
  }
  RankedTensorType type = tensorType(&context, shape, Kind::Float);
  const std::string name = nameParameter(node, tensor);
  nn::ParameterOp parameter;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(main);
    Location location = NameLoc::get(builder.getStringAttr(name));
    parameter = nn::ParameterOp::create(builder, location, name, type);
  }
  if (failed(file.attachData(tensor, parameter)) || failed(attachBlocks({&tensor}, parameter)))
    return {};
  parameter.setBare(file.isBare(tensor.name()));
  parameter.setWhole(file.isWhole(tensor.name()));
  SmallVector<StringRef> aliases(file.getAliases(tensor.name()));
  if (!aliases.empty())
    parameter.setAliasesAttr(builder.getStrArrayAttr(aliases));
  return nn::ReadParameterOp::create(builder, node.getLocation(), type, name);
}

LogicalResult GraphImporter::attachBlocks(ArrayRef<const onnx::Tensor *> pieces, nn::ParameterOp parameter) {
  if (file.getMetadata("mebp.shape_only") == "1" ||
      !llvm::all_of(pieces, [&](const onnx::Tensor *piece) { return file.hasBlocks(*piece); }))
    return success();
  SmallVector<Attribute> places;
  for (const onnx::Tensor *piece : pieces) {
    auto place = file.getBlocks(*piece);
    if (failed(place))
      return failure();
    places.push_back(*place);
  }
  auto typeOf = [](Attribute place) { return cast<nn::ExternalDataAttr>(place).getElement(); };
  if (llvm::all_of(places, [&](Attribute place) { return typeOf(place) == typeOf(places.front()); }))
    parameter.setBlocksAttr(builder.getArrayAttr(places));
  return success();
}

Value GraphImporter::joinParameters(const OnnxNode &node, Entries &pieces) {
  Extents shape = getShape(*pieces.front());
  int64_t rows = 0;
  SmallVector<Attribute> places;
  SmallVector<const onnx::Tensor *> initializers;
  for (Entry *piece : pieces) {
    initializers.push_back(piece->initializer);
    Extents own = getShape(*piece);
    const int64_t ownRows = own.empty() ? 0 : own.front();
    rows += ownRows;
    if (!own.empty() && !shape.empty())
      own.front() = shape.front();
    if (own != shape || ownRows <= 0) {
      node.emitError() << "joins parameters of different shapes; export the model again";
      return {};
    }
    auto place = file.getPlace(*piece->initializer);
    if (failed(place))
      return {};
    places.push_back(*place);
  }
  const std::string &name = node.getProto().output(0);
  shape.front() = rows;
  RankedTensorType type = tensorType(&context, shape, Kind::Float);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(main);
    Location location = NameLoc::get(builder.getStringAttr(name));
    auto parameter = nn::ParameterOp::create(builder, location, name, type);
    parameter.setPiecesAttr(builder.getArrayAttr(places));
    if (failed(attachBlocks(initializers, parameter)))
      return {};
    SmallVector<StringRef> aliases(file.getAliases(name));
    if (!aliases.empty())
      parameter.setAliasesAttr(builder.getStrArrayAttr(aliases));
  }
  return nn::ReadParameterOp::create(builder, node.getLocation(), type, name);
}

Value GraphImporter::emit(const OnnxNode &node, StringRef op, ValueRange inputs, ArrayRef<int64_t> shape, Type element,
                          Attributes attributes) {
  auto type = RankedTensorType::get(shape, element);
  DictionaryAttr dictionary = attributes.empty() ? DictionaryAttr() : builder.getDictionaryAttr(attributes);
  return nn::OnnxOp::create(builder, node.getLocation(), TypeRange(type), builder.getStringAttr(op), inputs, dictionary)
      .getOutputs()[0];
}

void GraphImporter::define(StringRef name, Value value) { entries[name].value = value; }

void GraphImporter::define(StringRef name, HostTensor constant) {
  entries[name].constant = std::make_shared<HostTensor>(std::move(constant));
}
