// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ModuleOptions.h"

#include "compiler/VisitOptions.h"
#include "format/optimizers.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {

namespace {

constexpr StringLiteral attributeName = "mebp.options";

class Writer {
public:
  explicit Writer(MLIRContext *context) : builder(context) {}

  template <typename Option> void operator()(StringRef name, const Option &value) { add(name, make(value)); }
  template <typename Option> void operator()(StringRef name, const std::optional<Option> &value) {
    if (value)
      add(name, make(*value));
  }

  DictionaryAttr finish() { return builder.getDictionaryAttr(attributes); }

private:
  void add(StringRef name, Attribute value) { attributes.push_back(builder.getNamedAttr(name, value)); }

  Attribute make(int64_t value) { return builder.getI64IntegerAttr(value); }
  Attribute make(uint64_t value) { return builder.getI64IntegerAttr(static_cast<int64_t>(value)); }
  Attribute make(double value) { return builder.getF64FloatAttr(value); }
  Attribute make(bool value) { return builder.getBoolAttr(value); }
  Attribute make(const std::string &value) { return builder.getStringAttr(value); }
  Attribute make(format::WeightFormat value) { return builder.getStringAttr(format::nameOf(value)); }
  Attribute make(Spill value) { return builder.getStringAttr(nameOf(value)); }
  Attribute make(const std::vector<std::string> &values) {
    return builder.getStrArrayAttr(SmallVector<StringRef>(values.begin(), values.end()));
  }

  Builder builder;
  SmallVector<NamedAttribute> attributes;
};

class Reader {
public:
  explicit Reader(DictionaryAttr attributes) : attributes(attributes) {}

  template <typename Option> void operator()(StringRef name, Option &value) {
    Attribute attribute = attributes.get(name);
    if (wrong.empty() && (!attribute || !read(attribute, value)))
      wrong = name.str();
  }
  template <typename Option> void operator()(StringRef name, std::optional<Option> &value) {
    if (attributes.get(name))
      (*this)(name, value.emplace());
  }

  /// The first that is missing or is no such thing; empty: none.
  const std::string &getWrong() const { return wrong; }

private:
  static bool read(Attribute attribute, int64_t &value) {
    auto integer = dyn_cast<IntegerAttr>(attribute);
    if (integer && integer.getType().isInteger(64))
      value = integer.getInt();
    return integer && integer.getType().isInteger(64);
  }
  static bool read(Attribute attribute, uint64_t &value) {
    int64_t bits = 0;
    bool isRead = read(attribute, bits);
    value = static_cast<uint64_t>(bits);
    return isRead;
  }
  static bool read(Attribute attribute, double &value) {
    auto number = dyn_cast<FloatAttr>(attribute);
    if (number)
      value = number.getValueAsDouble();
    return static_cast<bool>(number);
  }
  static bool read(Attribute attribute, bool &value) {
    auto flag = dyn_cast<BoolAttr>(attribute);
    if (flag)
      value = flag.getValue();
    return static_cast<bool>(flag);
  }
  static bool read(Attribute attribute, std::string &value) {
    auto text = dyn_cast<StringAttr>(attribute);
    if (text)
      value = text.str();
    return static_cast<bool>(text);
  }
  static bool read(Attribute attribute, format::WeightFormat &value) {
    std::string name;
    if (!read(attribute, name))
      return false;
    std::optional<format::WeightFormat> found = format::parseWeightFormat(name);
    value = found.value_or(value);
    return found.has_value();
  }
  static bool read(Attribute attribute, Spill &value) {
    std::string name;
    if (!read(attribute, name))
      return false;
    for (Spill spill : {Spill::None, Spill::Checkpoints, Spill::All})
      if (name == nameOf(spill)) {
        value = spill;
        return true;
      }
    return false;
  }
  static bool read(Attribute attribute, std::vector<std::string> &values) {
    auto array = dyn_cast<ArrayAttr>(attribute);
    values.clear();
    return array && llvm::all_of(array, [&](Attribute entry) { return read(entry, values.emplace_back()); });
  }

  DictionaryAttr attributes;
  std::string wrong;
};

} // namespace

void setOptions(ModuleOp module, const Options &options) {
  Writer writer(module.getContext());
  visitOptions(options, writer);
  module->setAttr(attributeName, writer.finish());
}

FailureOr<Options> getOptions(ModuleOp module, EmitError emitError) {
  auto attributes = module->getAttrOfType<DictionaryAttr>(attributeName);
  if (!attributes)
    return emitError() << "has no " << attributeName << "; give what mebpc --emit exec prints";
  Options options;
  Reader reader(attributes);
  visitOptions(options, reader);
  if (!reader.getWrong().empty())
    return emitError() << attributeName << " has no " << reader.getWrong() << ", or not a valid one";
  if (options.shape.batch < 1 || options.shape.sequence < 1 || options.training.threads < 1 ||
      !format::findOptimizer(std::string_view(options.training.optimizer)) ||
      !findWrongMomentum(options.training).empty())
    return emitError() << attributeName << " has no valid batch, sequence, threads, optimizer and momentum";
  return options;
}

} // namespace mebp
