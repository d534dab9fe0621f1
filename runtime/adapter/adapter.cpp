// SPDX-License-Identifier: Apache-2.0
#include "runtime/adapter/adapter.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <set>
#include <unordered_map>

#include <sys/stat.h>
#include <unistd.h>

#include "format/folders.h"
#include "format/tensor_names.h"
#include "runtime/adapter/adapter_config.h"
#include "runtime/adapter/drawn_factors.h"
#include "runtime/adapter/kinds.h"
#include "runtime/core/files.h"
#include "runtime/core/safetensors.h"
#include "runtime/core/system_failure.h"

namespace mebp {

static constexpr char tensorsName[] = "/adapter_model.safetensors"; // PEFT's
static constexpr char configName[] = "/adapter_config.json";
// A value head is for training on alone, and PEFT would not know it.
static constexpr char valueHeadName[] = "/value_head.safetensors";
// The adapter that it is on, where that is not the policy's.
static constexpr char valueAdapterName[] = "/value_adapter.safetensors";

Status checkLora(const Engine &engine) {
  if (engine.bundle().model().lora().rank() > 0)
    return Status();
  return failure(MEBP_UNSUPPORTED, "the bundle was compiled with --train full, so it has no adapter; mebp train "
                                   "--model-out and Session.save_model write the model itself");
}

// What a session of this bundle reads again.
static std::string ownTensorsName(const format::Bundle &bundle) { return std::string("/") + kindOf(bundle).file; }

static Status finish(FileReplacement &file) {
  if (Status status = file.sync(); !status.ok())
    return status;
  return file.replace();
}

using Numbers = std::vector<uint32_t>; // of trainables

bool isOfValueHead(std::string_view name) { return name == format::valueHeadWeight || name == format::valueHeadBias; }

// The tensors of a file that have its numbers, all the same. Of adapters, a parameter of the model itself has PEFT's
// names and transformers' shape.
static std::vector<TensorHead> headsOf(const format::Bundle &bundle, const format::Trainable &trainable) {
  TensorHead head = {trainable.name(), "F32", sizeof(float), {trainable.rows(), trainable.columns()}};
  if (!trainable.has_initial_weight())
    return {head};
  if (bundle.weights(static_cast<int>(trainable.initial_weight())).rank() == 1)
    head.shape = {trainable.columns()};
  if (trainable.has_rows_of()) // whose name is PEFT's
    return {head};
  std::vector<TensorHead> heads;
  for (const std::string &name : modelNamesOf(bundle, trainable)) {
    head.name = format::savedName(name);
    heads.push_back(head);
  }
  return heads;
}

// All of the adapter, or of the value head.
static Numbers numbersOf(const format::Bundle &bundle, bool ofValueHead) {
  Numbers numbers;
  for (int i = 0; i < bundle.trainables_size(); ++i)
    if (isOfValueHead(bundle.trainables(i).name()) == ofValueHead)
      numbers.push_back(static_cast<uint32_t>(i));
  return numbers;
}

static Status writeAsLora(const LoraForm &form, const Engine &engine, const std::string &folder) {
  FileReplacement file(folder + tensorsName);
  std::vector<TensorHead> matrices;
  for (const format::Trainable &trainable : engine.bundle().content().trainables())
    for (TensorHead &head : form.heads(trainable))
      matrices.push_back(std::move(head));
  std::string head = safetensorsHead(matrices, {{"format", "pt"}});
  file.write(head.data(), head.size());
  std::vector<float> values, a, b;
  for (uint32_t i = 0; i < engine.trainables.count(); ++i) {
    values.resize(engine.trainables.elements(i));
    if (Status status = engine.trainables.read(i, values.data()); !status.ok())
      return status;
    form.factors(engine.bundle().content().trainables(static_cast<int>(i)), values, a, b);
    file.write(a.data(), a.size() * sizeof(float));
    file.write(b.data(), b.size() * sizeof(float));
  }
  return finish(file);
}

static Status writeFile(const Engine &engine, Adapter of, const Numbers &numbers, const SafeMetadata &metadata,
                        const std::string &path) {
  FileReplacement file(path);
  std::vector<TensorHead> matrices;
  for (uint32_t i : numbers) {
    const format::Bundle &bundle = engine.bundle().content();
    for (TensorHead &matrix : headsOf(bundle, bundle.trainables(static_cast<int>(i))))
      matrices.push_back(std::move(matrix));
  }
  std::string head = safetensorsHead(matrices, metadata);
  file.write(head.data(), head.size());
  std::vector<float> values;
  for (uint32_t i : numbers) {
    values.resize(engine.trainables.elements(i));
    if (Status status = engine.trainables.read(i, of, values.data()); !status.ok())
      return status;
    const format::Bundle &bundle = engine.bundle().content();
    for (size_t copy = 0; copy < headsOf(bundle, bundle.trainables(static_cast<int>(i))).size(); ++copy)
      file.write(values.data(), values.size() * sizeof(float));
  }
  return finish(file);
}

static Status writeTensors(const Engine &engine, const std::string &folder) {
  const format::Bundle &bundle = engine.bundle().content();
  const SafeMetadata plain = {{"format", "pt"}};
  const bool hasOwn = engine.trainables.hasValueAdapter();
  const Adapter ofValues = hasOwn ? Adapter::Value : Adapter::Policy;
  if (const Numbers numbers = numbersOf(bundle, true); !numbers.empty())
    if (Status status = writeFile(engine, ofValues, numbers, plain, folder + valueHeadName); !status.ok())
      return status;
  if (hasOwn)
    if (Status status = writeFile(engine, ofValues, numbersOf(bundle, false), plain, folder + valueAdapterName);
        !status.ok())
      return status;
  const SafeMetadata metadata = hasDrawnFactors(bundle) ? metadataOfDrawn(bundle) : plain;
  if (Status status =
          writeFile(engine, Adapter::Policy, numbersOf(bundle, false), metadata, folder + ownTensorsName(bundle));
      !status.ok())
    return status;
  const LoraForm *form = loraFormOf(bundle);
  return form ? writeAsLora(*form, engine, folder) : Status();
}

static Status writeConfig(const std::string &text, const std::string &folder) {
  FileReplacement file(folder + configName);
  file.write(text.data(), text.size());
  return finish(file);
}

// A file of any kind of adapter's.
static bool isOfKind(std::string_view name) {
  return std::any_of(std::begin(format::adapters), std::end(format::adapters),
                     [&](const format::AdapterTraits &traits) { return name == traits.file; });
}

// Whether a file is there of which a bundle of another kind would read its own, beside PEFT's.
static bool hasOtherKind(const format::Bundle &bundle, const std::string &folder) {
  return std::any_of(std::begin(format::adapters), std::end(format::adapters),
                     [&](const format::AdapterTraits &traits) {
                       const std::string file = std::string("/") + traits.file;
                       return file != tensorsName && file != ownTensorsName(bundle) && fileSize(folder + file).ok();
                     });
}

// Takes along what else lies in the folder, without copying it.
static Status linkOthers(const std::string &folder, const format::FolderReplacement &fresh) {
  std::vector<std::string> names;
  if (int reason = format::listFolder(folder, names))
    return systemFailure(folder, "read", reason);
  for (const std::string &name : names) {
    const std::string path = folder + "/" + name;
    struct stat information;
    if (isOfKind(name) || "/" + name == configName || "/" + name == valueHeadName || "/" + name == valueAdapterName)
      continue;
    if (::stat(path.c_str(), &information) != 0 || !S_ISREG(information.st_mode))
      return failure(MEBP_INVALID_ARGUMENT,
                     "%s: has another adapter and '%s' beside it, so it cannot be replaced as a whole; choose another "
                     "folder",
                     folder.c_str(), name.c_str());
    if (::link(path.c_str(), fresh.file(name).c_str()) != 0)
      return systemFailure(path, "link", errno);
  }
  return Status();
}

// An adapter of other settings is in the folder: the two files may not change one after the other.
static Status replaceAdapter(const Engine &engine, const std::string &text, const std::string &folder) {
  format::FolderReplacement fresh(folder);
  if (int reason = fresh.open())
    return systemFailure(folder, "make a folder beside it", reason);
  if (Status status = writeTensors(engine, fresh.file("")); !status.ok())
    return status;
  if (Status status = writeConfig(text, fresh.file("")); !status.ok())
    return status;
  if (Status status = linkOthers(folder, fresh); !status.ok())
    return status;
  if (int reason = fresh.replace())
    return systemFailure(folder, "replace", reason);
  return Status();
}

// The tensors alone change where the settings stay; where there are none yet, they make it an adapter, and come last.
Status saveAdapter(const Engine &engine, const std::string &folder) {
  if (Status status = checkLora(engine); !status.ok())
    return status;
  if (Status status = engine.trainables.checkSaves(); !status.ok())
    return status;
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  const std::string text = adapterConfig(engine.bundle().content());
  Result<std::string> settings = readFile(folder + configName, 1 << 20);
  if (!settings.ok() && settings.status().code() != MEBP_NOT_FOUND)
    return settings.status();
  const format::Bundle &bundle = engine.bundle().content();
  const bool hasOtherValues = (numbersOf(bundle, true).empty() && fileSize(folder + valueHeadName).ok()) ||
                              (!engine.trainables.hasValueAdapter() && fileSize(folder + valueAdapterName).ok());
  if (settings.ok() && (*settings != text || hasOtherKind(bundle, folder) || hasOtherValues))
    return replaceAdapter(engine, text, folder);
  if (Status status = writeTensors(engine, folder); !status.ok() || settings.ok())
    return status;
  return writeConfig(text, folder);
}

uint64_t adapterDiskBytes(const Engine &engine, const std::string &folder) {
  uint64_t elements = 0;
  const LoraForm *form = loraFormOf(engine.bundle().content());
  for (const format::Trainable &trainable : engine.bundle().content().trainables()) {
    elements += headsOf(engine.bundle().content(), trainable).size() * trainable.rows() * trainable.columns();
    if (form)
      for (const TensorHead &head : form->heads(trainable))
        elements += head.shape[0] * head.shape[1];
  }
  elements *= engine.trainables.hasValueAdapter() ? 2 : 1;
  uint64_t needed = 2 * elements * sizeof(float);
  Result<uint64_t> there = fileSize(folder + tensorsName);
  return there.ok() ? needed - std::min(needed, *there) : needed;
}

// The modules that the adapter has tensors of, and the parameters that its settings name, as mebpc's --lora-targets
// takes them.
static std::string targetsOf(const std::vector<SafeTensor> &tensors, const std::vector<std::string> &parameters) {
  std::set<std::string> modules, ofParameters = {"base_layer"}; // an adapter within another
  for (const std::string &name : parameters)
    ofParameters.emplace(format::moduleOf(format::ownerOf(name)));
  for (const SafeTensor &tensor : tensors)
    if (const std::string_view layer = format::adaptedLayer(tensor.name); !layer.empty())
      modules.emplace(format::moduleOf(layer));
  for (const std::string &name : ofParameters)
    modules.erase(name);
  modules.insert(parameters.begin(), parameters.end());
  std::string list;
  for (const std::string &name : modules)
    list += (list.empty() ? "" : ",") + name;
  return list;
}

static Status checkNoOthers(const std::vector<SafeTensor> &tensors, const std::vector<std::string> &parameters,
                            const format::Bundle &bundle) {
  std::set<std::string> trained;
  for (const format::Trainable &trainable : bundle.trainables())
    for (const TensorHead &head : headsOf(bundle, trainable))
      trained.insert(head.name);
  for (const SafeTensor &tensor : tensors)
    if (format::adaptedLayer(tensor.name).empty() && !trained.count(tensor.name))
      return failure(MEBP_UNSUPPORTED,
                     "has '%s', and only LoRA of linear layers is supported; train or save the adapter without it",
                     tensor.name.c_str());
  for (const SafeTensor &tensor : tensors)
    if (!trained.count(tensor.name))
      return failure(MEBP_INCOMPATIBLE,
                     "has '%s', which this bundle does not train; compile its base model with --lora-targets %s",
                     tensor.name.c_str(), targetsOf(tensors, parameters).c_str());
  return Status();
}

static Status checkTensor(const format::Bundle &bundle, const SafeTensor &tensor, const format::Trainable &trainable) {
  const char *name = trainable.name().c_str();
  if (tensor.shape != headsOf(bundle, trainable).front().shape) {
    std::string shape;
    for (uint64_t extent : tensor.shape)
      shape += (shape.empty() ? "" : " x ") + std::to_string(extent);
    return failure(MEBP_INCOMPATIBLE, "'%s' is %s, the bundle's is %u x %u; use an adapter of the same base model",
                   name, shape.c_str(), trainable.rows(), trainable.columns());
  }
  if (!canWiden(tensor))
    return failure(MEBP_UNSUPPORTED, "'%s' is stored as %s; save the adapter in F32, BF16 or F16", name,
                   tensor.type.c_str());
  return Status();
}

// A file whose tensors have been found to fit.
struct Matched {
  MappedFile file;
  std::vector<SafeTensor> tensors;
  Numbers numbers;                        // of the trainables,
  std::vector<const SafeTensor *> values; // and what each is to have; none: zeros
};

static Status open(const std::string &path, Matched &out, SafeMetadata *metadata = nullptr) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  out.file = std::move(*file);
  return readSafetensors(out.file, "save the adapter again", out.tensors, metadata).in(path);
}

static Status take(Engine &engine, const Matched &matched) {
  std::vector<float> values;
  for (size_t i = 0; i < matched.numbers.size(); ++i) {
    values.assign(engine.trainables.elements(matched.numbers[i]), 0.0f);
    if (!matched.values.empty())
      widen(*matched.values[i], values.data());
    if (Status status = engine.trainables.write(matched.numbers[i], values.data()); !status.ok())
      return status;
  }
  return matched.file.isCut() ? failure(MEBP_IO, "was cut off while it was read; load an adapter again") : Status();
}

static bool areEqual(const SafeTensor &a, const SafeTensor &b) {
  return a.type == b.type && a.shape == b.shape && a.bytes == b.bytes && std::memcmp(a.data, b.data, a.bytes) == 0;
}

static Status match(const format::Bundle &bundle, const std::vector<std::string> &parameters,
                    const SafeMetadata &metadata, Matched &out) {
  const std::vector<SafeTensor> &tensors = out.tensors;
  if (Status status = checkNoOthers(tensors, parameters, bundle); !status.ok())
    return status;
  std::unordered_map<std::string, const SafeTensor *> byName;
  for (const SafeTensor &tensor : tensors)
    byName[tensor.name] = &tensor;
  out.numbers = numbersOf(bundle, false);
  for (uint32_t i : out.numbers) {
    const format::Trainable &trainable = bundle.trainables(static_cast<int>(i));
    const std::vector<TensorHead> heads = headsOf(bundle, trainable);
    auto found = byName.find(heads.front().name);
    if (found == byName.end())
      return failure(MEBP_INCOMPATIBLE,
                     "lacks '%s', which this bundle trains; take an adapter of all its target modules (this one has "
                     "%s), or compile with this one's",
                     trainable.name().c_str(), targetsOf(tensors, parameters).c_str());
    if (Status status = checkTensor(bundle, *found->second, trainable); !status.ok())
      return status;
    for (const TensorHead &head : heads)
      if (auto other = byName.find(head.name); other != byName.end() && !areEqual(*found->second, *other->second))
        return failure(MEBP_INCOMPATIBLE,
                       "'%s' and '%s' differ, which are one table of the bundle; train the adapter "
                       "with ensure_weight_tying",
                       heads.front().name.c_str(), head.name.c_str());
    out.values.push_back(found->second);
  }
  return hasDrawnFactors(bundle) ? checkDrawn(metadata, bundle) : Status();
}

static Status matchValueHead(const format::Bundle &bundle, Matched &out) {
  for (uint32_t i : out.numbers) {
    const format::Trainable &trainable = bundle.trainables(static_cast<int>(i));
    auto found = std::find_if(out.tensors.begin(), out.tensors.end(),
                              [&](const SafeTensor &tensor) { return tensor.name == trainable.name(); });
    if (found == out.tensors.end())
      return failure(MEBP_CORRUPT, "lacks '%s'; save the adapter again, or remove the file", trainable.name().c_str());
    if (Status status = checkTensor(bundle, *found, trainable); !status.ok())
      return status;
    out.values.push_back(&*found);
  }
  return Status();
}

Status loadAdapter(Engine &engine, const std::string &folder) {
  if (Status status = checkLora(engine); !status.ok())
    return status;
  Result<std::string> config = readFile(folder + configName, 1 << 20);
  if (!config.ok())
    return config.status();
  const format::Bundle &bundle = engine.bundle().content();
  // The one in use is replaced. A head that is on an adapter of its own comes with that one alone.
  const bool hasValueAdapter = fileSize(folder + valueAdapterName).ok();
  const bool takesValues = engine.trainables.adapterInUse() == Adapter::Value && hasValueAdapter;
  const std::string path = folder + (takesValues ? valueAdapterName : ownTensorsName(bundle));
  if (const format::AdapterTraits &kind = kindOf(bundle);
      kind.isRemote && fileSize(path).status().code() == MEBP_NOT_FOUND)
    return failure(
        MEBP_INCOMPATIBLE,
        "%s: has no %s, of which a bundle of --adapter %s reads its %s; choose an adapter that such a bundle "
        "wrote",
        folder.c_str(), kind.file, kind.name, kind.symbol);
  if (Status status = checkAdapterConfig(*config, bundle); !status.ok())
    return status.in(folder + configName);
  // Nothing is taken before all is known to fit. An adapter without a value head brings one that has learned nothing.
  Matched adapter, valueHead;
  SafeMetadata metadata;
  if (Status status = open(path, adapter, &metadata); !status.ok())
    return status;
  if (Status status = match(bundle, targetParametersOf(*config), metadata, adapter); !status.ok())
    return status.in(path);
  const std::string valuePath = folder + valueHeadName;
  valueHead.numbers = numbersOf(bundle, true);
  if (!valueHead.numbers.empty() && takesValues == hasValueAdapter && fileSize(valuePath).ok()) {
    Status status = open(valuePath, valueHead);
    if (status.ok())
      status = matchValueHead(bundle, valueHead).in(valuePath);
    if (!status.ok())
      return status;
  }
  Status status = take(engine, adapter).in(path);
  return status.ok() ? take(engine, valueHead).in(valuePath) : status;
}

} // namespace mebp
