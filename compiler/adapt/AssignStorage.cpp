// SPDX-License-Identifier: Apache-2.0
//
// Decides how each frozen weight is stored. Whatever reads it, plan, cost model and writer, asks the parameter.
//
// 1. A vector is f32, also one that stands as a column: it is small, and what it scales or shifts is whole. So is
//    what a kernel reads exactly, as the weight of a convolution.
// 2. A weight whose layer a rule names (PATTERN=STORAGE; * stands for anything, an alias counts as its name) is stored
//    as the rule has it. Rules that disagree, or match no matrix, are errors.
//    `file` is what the model's own file has: the blocks of a GGUF file byte for byte, or in the storage that holds
//    them exactly, else the file's element type.
// 3. Tables, and the head, which sees every token of the vocabulary, are as `embeddings`, all others as `matrices`.
//    What is trained whole beside adapters is f32.
#include "compiler/adapt/Passes.h"
#include "dialects/nn/Embeddings.h"
#include "dialects/nn/Parameters.h"

#include "format/tensor_names.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ASSIGNSTORAGE
#include "compiler/adapt/Passes.h.inc"

namespace {

struct Rule {
  std::string text;
  llvm::GlobPattern pattern;
  format::WeightFormat weightFormat;
  bool matched = false;

  bool matches(nn::ParameterOp parameter) const {
    if (matchesName(parameter.getSymName()))
      return true;
    auto aliases = parameter.getAliases();
    return aliases && llvm::any_of(aliases->getAsRange<StringAttr>(),
                                   [&](StringAttr alias) { return matchesName(alias.getValue()); });
  }

private:
  bool matchesName(StringRef name) const { return pattern.match(name) || pattern.match(format::layerOf(name)); }
};

struct AssignStorage : impl::AssignStorageBase<AssignStorage> {
  using AssignStorageBase::AssignStorageBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<format::WeightFormat> ofMatrices = readFormat(matrices), ofEmbeddings = readFormat(embeddings);
    SmallVector<Rule> read;
    if (failed(ofMatrices) || failed(ofEmbeddings) || failed(readRules(read)))
      return signalPassFailure();
    llvm::StringSet<> tables = findEmbeddings(module), exact = findParameters(module, readsExactly);
    llvm::SetVector<StringRef> available;
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      if (parameter.getTrainable())
        continue;
      format::WeightFormat chosen = format::WeightFormat::F32;
      if (isMatrix(parameter.getTensorType()) && !exact.contains(parameter.getSymName())) {
        addNames(parameter, available);
        if (!parameter.getWhole())
          chosen = tables.contains(parameter.getSymName()) ? *ofEmbeddings : *ofMatrices;
        if (failed(applyRules(read, parameter, chosen)))
          return signalPassFailure();
      }
      if (chosen == format::WeightFormat::File)
        chosen = ofFile(parameter);
      parameter.setStorage(format::nameOf(chosen));
    }
    for (const Rule &rule : read)
      if (!rule.matched) {
        module.emitError() << "--weights-for '" << rule.text << "' matches no matrix; the layers' names end in "
                           << llvm::join(available, ", ");
        return signalPassFailure();
      }
  }

  static format::WeightFormat ofFile(nn::ParameterOp parameter) {
    if (const format::FileType *type = parameter.getFileType())
      return type->heldBy;
    auto data = parameter.getData();
    if (auto pieces = parameter.getPieces(); pieces && !pieces->empty())
      data = cast<nn::ExternalDataAttr>(pieces->getValue().front());
    if (!data || data->getElement() == "f32")
      return format::WeightFormat::F32;
    if (data->getElement() == "bf16")
      return format::WeightFormat::BF16;
    const bool fits = format::holdsColumns(format::Storage::F16, parameter.getTensorType().getShape().back());
    return fits ? format::WeightFormat::F16 : format::WeightFormat::F32;
  }

  FailureOr<format::WeightFormat> readFormat(StringRef name) {
    if (std::optional<format::WeightFormat> found = format::parseChosenFormat(name))
      return *found;
    return getOperation().emitError() << "'" << name << "' is no storage of weights; choose "
                                      << format::weightFormatNames;
  }

  LogicalResult readRules(SmallVector<Rule> &out) {
    for (const std::string &text : rules) {
      auto refuse = [&] { return getOperation().emitError() << "--weights-for '" << text << "': "; };
      auto [pattern, storage] = StringRef(text).rsplit('=');
      if (pattern.empty() || storage.empty())
        return refuse() << "give PATTERN=STORAGE, such as lm_head=int8";
      std::optional<format::WeightFormat> weightFormat = format::parseChosenFormat(storage);
      if (!weightFormat)
        return refuse() << "choose " << format::weightFormatNames;
      llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
      if (!glob)
        return refuse() << llvm::toString(glob.takeError());
      out.push_back({text, std::move(*glob), *weightFormat});
    }
    return success();
  }

  LogicalResult applyRules(MutableArrayRef<Rule> read, nn::ParameterOp parameter, format::WeightFormat &chosen) {
    const Rule *first = nullptr;
    for (Rule &rule : read) {
      if (!rule.matches(parameter))
        continue;
      rule.matched = true;
      if (first && first->weightFormat != rule.weightFormat)
        return parameter.emitError() << "--weights-for: '" << first->text << "' and '" << rule.text
                                     << "' disagree about '" << format::layerOf(parameter.getSymName())
                                     << "'; let only one of them match it";
      first = &rule;
      chosen = rule.weightFormat;
    }
    return success();
  }

  static void addNames(nn::ParameterOp parameter, llvm::SetVector<StringRef> &out) {
    out.insert(format::moduleOf(format::layerOf(parameter.getSymName())));
    if (auto aliases = parameter.getAliases())
      for (auto alias : aliases->getAsRange<StringAttr>())
        out.insert(format::moduleOf(format::layerOf(alias.getValue())));
  }

  static bool isMatrix(RankedTensorType type) { return type.getRank() > 1 && type.getShape().back() > 1; }

  /// Those with such a use.
  static llvm::StringSet<> findParameters(ModuleOp module, bool (*isUse)(OpOperand &)) {
    llvm::StringSet<> names;
    for (auto block : module.getOps<train::BlockOp>())
      for (NamedAttribute program : block.getPrograms()) {
        auto function =
            SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(block, cast<FlatSymbolRefAttr>(program.getValue()));
        for (unsigned i = 0; function && i < function.getNumArguments(); ++i) {
          train::PortAttr port = train::getArgumentPort(function, i);
          if (port && port.getKind() == train::PortKind::Parameter &&
              llvm::any_of(function.getArgument(i).getUses(), isUse))
            names.insert(block.getParameter(port.getName()).getValue());
        }
      }
    return names;
  }

  static bool readsExactly(OpOperand &use) {
    auto kernel = dyn_cast<nn::KernelOpInterface>(use.getOwner());
    return kernel && llvm::is_contained(kernel.getExactValues(), use.get());
  }

  static llvm::StringSet<> findEmbeddings(ModuleOp module) {
    llvm::StringSet<> names = findParameters(module, isTable);
    for (auto block : module.getOps<train::BlockOp>())
      if (block.getKind() != train::BlockKind::Layer)
        for (auto name : block.getParameters().getAsRange<FlatSymbolRefAttr>())
          names.insert(name.getValue());
    return names;
  }

  static bool isTable(OpOperand &use) { return isa<nn::EmbeddingOp>(use.getOwner()); }
};

} // namespace
} // namespace mebp
