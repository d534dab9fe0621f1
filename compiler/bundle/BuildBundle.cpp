// SPDX-License-Identifier: Apache-2.0
#include "compiler/bundle/BuildBundle.h"

#include "compiler/bundle/ProgramBuilder.h"
#include "compiler/bundle/WeightLayout.h"
#include "dialects/train/Train.h"
#include "format/optimizers.h"
#include "format/split.h"
#include "format/tasks.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace mebp {

namespace {

/// A checkpoint as the head reads it: [tokens, hidden], in the type of activations.
RankedTensorType getCheckpointType(ModuleOp module) {
  for (auto program : module.getOps<exec::ProgramOp>())
    for (auto [index, argument] : llvm::enumerate(program.getBody().front().getArguments()))
      if (program.getInputPort(index).isFlow())
        return cast<RankedTensorType>(argument.getType());
  llvm_unreachable("every model has a head, which reads a checkpoint");
}

std::string getText(ModuleOp module, StringRef name) {
  auto text = module->getAttrOfType<StringAttr>(name);
  return text ? text.str() : "";
}

/// Of what an adapter trains between A and B, those two.
void addBetween(const SymbolTable &symbols, nn::ParameterOp trained, format::Trainable &message) {
  if (!trained.getBetween())
    return;
  auto find = [&](unsigned number) {
    return symbols.lookup<nn::ParameterOp>(cast<FlatSymbolRefAttr>((*trained.getBetween())[number]).getValue());
  };
  nn::ParameterOp a = find(0), b = find(1);
  format::Between &between = *message.mutable_between();
  between.set_seed(a.getDrawn()->getSeed());
  between.set_a_stream(a.getDrawn()->getStream());
  between.set_b_stream(b.getDrawn()->getStream());
  between.set_inputs(a.getTensorType().getDimSize(1));
  between.set_outputs(b.getTensorType().getDimSize(0));
}

void addBlocks(ModuleOp module, const llvm::StringMap<uint32_t> &programs, const llvm::StringMap<uint32_t> &weights,
               format::ElementType projector, format::Bundle &bundle) {
  const SymbolTable symbols(module); // a model has hundreds of parameters
  llvm::StringMap<uint32_t> trainables;
  for (auto block : module.getOps<train::BlockOp>()) {
    format::Block &message = *bundle.add_blocks();
    message.set_name(block.getSymName().str());
    message.set_kind(static_cast<format::Block::Kind>(static_cast<int>(block.getKind()) + 1));
    for (auto [ownName, symbol] : llvm::zip(block.getParameterNames(), block.getParameters())) {
      StringRef name = cast<FlatSymbolRefAttr>(symbol).getValue();
      auto parameter = symbols.lookup<nn::ParameterOp>(name);
      format::Parameter &bound = *message.add_parameters();
      bound.set_name(cast<StringAttr>(ownName).getValue().str());
      if (!parameter.getTrainable()) {
        bound.set_weight(weights.lookup(name));
        continue;
      }
      auto [entry, isNew] = trainables.try_emplace(name, bundle.trainables_size());
      if (isNew) {
        format::Trainable &trainable = *bundle.add_trainables();
        trainable.set_name(name.str());
        RankedTensorType type = parameter.getTensorType();
        trainable.set_rows(type.getRank() == 1 ? 1 : type.getDimSize(0));
        trainable.set_columns(type.getShape().back());
        trainable.set_rank(parameter.getGradientRank().value_or(0));
        addBetween(symbols, parameter, trainable);
        if (auto adapted = parameter.getAdapts())
          trainable.set_adapts(adapted->str());
        if (auto table = parameter.getRowsOf()) {
          trainable.set_rows_of(weights.lookup(*table));
          trainable.set_first_row(symbols.lookup<nn::ParameterOp>(*table).getApart()->front());
        }
        if (trainable.rank() && projector != format::F32)
          trainable.set_projector(projector);
        if (auto bound = parameter.getInitialBound())
          trainable.set_initial_bound(bound->convertToFloat());
        else
          trainable.set_initial_weight(weights.lookup(name));
        trainable.set_element(format::F32);
        if (trainable.has_initial_weight())
          trainable.set_element(bundle.weights(trainable.initial_weight()).element());
      }
      bound.set_trainable(entry->second);
    }
    for (NamedAttribute program : block.getPrograms()) {
      format::BlockProgram &named = *message.add_programs();
      named.set_name(program.getName().str());
      named.set_program(programs.lookup(cast<FlatSymbolRefAttr>(program.getValue()).getValue()));
    }
  }
}

void setSeed(format::Model &model, uint64_t seed) {
  model.set_seed(seed);
  model.mutable_lora()->set_seed(seed); // where older runtimes look for it
}

/// What the module says of its half, where it is one.
void addSplit(ModuleOp module, format::Bundle &bundle) {
  auto half = module->getAttrOfType<DictionaryAttr>("mebp.half");
  if (!half)
    return;
  auto getNumber = [&](StringRef name) { return half.getAs<IntegerAttr>(name).getValue().getZExtValue(); };
  format::Split &split = *bundle.mutable_split();
  bool isServer = half.getAs<StringAttr>("place").getValue() == StringRef(format::serverPlace);
  split.set_place(isServer ? format::Split::SERVER : format::Split::DEVICE);
  split.set_pair(getNumber("pair"));
  split.set_first_block(getNumber("first_block"));
  split.set_end_block(getNumber("end_block"));
  split.set_lowest_trained(getNumber("lowest_trained"));
  split.set_ring(getNumber("ring"));
  split.set_ring_slack(getNumber("ring_slack"));
  if (isServer)
    setSeed(*bundle.mutable_model(), 0); // which the adapter could be drawn again by
}

/// The first block that runs each program. Blocks that share one store their parameters alike.
llvm::StringMap<train::BlockOp> findFirstUsers(ModuleOp module) {
  llvm::StringMap<train::BlockOp> users;
  for (auto block : module.getOps<train::BlockOp>())
    for (NamedAttribute program : block.getPrograms())
      users.try_emplace(cast<FlatSymbolRefAttr>(program.getValue()).getValue(), block);
  return users;
}

} // namespace

SmallVector<nn::ParameterOp> buildBundle(ModuleOp module, const Options &options, format::Bundle &bundle) {
  bundle.set_producer("mebpc " MEBP_VERSION);
  format::Model &model = *bundle.mutable_model();
  model.set_name(getText(module, "mebp.name"));
  if (auto vocabulary = module->getAttrOfType<IntegerAttr>("mebp.vocabulary"))
    model.set_vocabulary(vocabulary.getInt());
  if (const format::TaskTraits *task = format::findTask(getText(module, "mebp.task")))
    model.set_task(task->task);
  if (auto classes = module->getAttrOfType<ArrayAttr>("mebp.classes"))
    for (auto name : classes.getAsRange<StringAttr>())
      model.add_classes(name.str());
  model.set_text_part(getText(module, "mebp.text_part"));
  RankedTensorType checkpoint = getCheckpointType(module);
  model.set_hidden(checkpoint.getDimSize(1));
  model.set_batch(options.shape.batch);
  model.set_sequence(options.shape.sequence);
  model.set_positions(options.generation.positions);
  model.set_router_aux_loss_coef(static_cast<float>(options.routerLoss.coefficient));
  model.set_activation(checkpoint.getElementType().isBF16() ? format::BF16 : format::F32);
  if (auto lora = module->getAttrOfType<DictionaryAttr>("mebp.lora")) {
    model.mutable_lora()->set_rank(lora.getAs<IntegerAttr>("rank").getInt());
    model.mutable_lora()->set_alpha(lora.getAs<FloatAttr>("alpha").getValueAsDouble());
    if (auto stabilized = lora.getAs<FloatAttr>("rslora_alpha"))
      model.mutable_lora()->set_rslora_alpha(stabilized.getValueAsDouble());
    if (auto dropout = lora.getAs<FloatAttr>("dropout"))
      model.mutable_lora()->set_dropout(static_cast<float>(dropout.getValueAsDouble()));
    if (auto pattern = lora.getAs<StringAttr>("layers_pattern")) {
      model.mutable_lora()->set_first_layer(lora.getAs<IntegerAttr>("first_layer").getInt());
      model.mutable_lora()->set_layer_count(lora.getAs<IntegerAttr>("layer_count").getInt());
      model.mutable_lora()->set_layers_pattern(pattern.str());
    }
    for (auto name : lora.getAs<ArrayAttr>("target_modules").getAsRange<StringAttr>())
      model.mutable_lora()->add_target_modules(name.str());
  }
  if (auto parameters = module->getAttrOfType<ArrayAttr>("mebp.target_parameters"))
    for (auto name : parameters.getAsRange<StringAttr>())
      model.mutable_lora()->add_target_parameters(name.str());
  setSeed(model, options.lora.seed);

  SmallVector<nn::ParameterOp> parameters = layOutWeights(module, bundle);
  llvm::StringMap<uint32_t> programs, weights;
  for (auto [index, parameter] : llvm::enumerate(parameters))
    weights[parameter.getSymName()] = index;
  llvm::StringMap<train::BlockOp> firstUser = findFirstUsers(module);
  const format::ElementType projector = format::elementOf(format::findOptimizer(options.training.optimizer)->projector);
  for (auto program : module.getOps<exec::ProgramOp>()) {
    programs[program.getSymName()] = bundle.programs_size();
    train::BlockOp block = firstUser.lookup(program.getSymName());
    auto parameterElement = [&](StringRef name) {
      if (const std::string_view suffix = format::thinSuffixOf(std::string_view(name)); !suffix.empty())
        return suffix == format::projectorSuffix ? projector : format::F32;
      StringRef symbol = block.getParameter(name).getValue();
      auto weight = weights.find(symbol); // an adapter has none
      return weight == weights.end() ? format::F32 : bundle.weights(weight->second).element();
    };
    buildProgram(program, parameterElement, *bundle.add_programs());
  }
  addBlocks(module, programs, weights, projector, bundle);
  addSplit(module, bundle);
  return parameters;
}

} // namespace mebp
