// SPDX-License-Identifier: Apache-2.0
#include "runtime/adapter/adapter.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <unordered_map>

#include <sys/stat.h>
#include <unistd.h>

#include "format/folders.h"
#include "format/tensor_names.h"
#include "runtime/adapter/adapter_config.h"
#include "runtime/adapter/private_lora.h"
#include "runtime/core/files.h"
#include "runtime/core/safetensors.h"

namespace mebp {

static constexpr char tensorsName[] = "/adapter_model.safetensors";
static constexpr char configName[] = "/adapter_config.json";

Status checkLora(const Session &session) {
  if (session.bundle().model().lora().rank() > 0)
    return Status();
  return failure(MEBP_UNSUPPORTED, "the bundle was compiled with --train full, so it has no adapter; mebp train "
                                   "--model-out and Session.save_model write the model itself");
}

// What a session of this bundle reads again.
static const char *ownTensorsName(const format::Bundle &bundle) {
  return isPrivateLora(bundle) ? privateTensorsName : tensorsName;
}

static Status finish(FileReplacement &file) {
  if (Status status = file.sync(); !status.ok())
    return status;
  return file.replace();
}

// An adapter B M A, as LoRA.
static Status writeAsLora(const Session &session, const std::string &folder) {
  FileReplacement file(folder + tensorsName);
  std::vector<TensorHead> matrices;
  for (const format::Trainable &trainable : session.bundle().content().trainables())
    for (TensorHead &head : headsOfLora(trainable))
      matrices.push_back(std::move(head));
  std::string head = safetensorsHead(matrices, {{"format", "pt"}});
  file.write(head.data(), head.size());
  std::vector<float> m;
  for (uint32_t i = 0; i < session.trainables.count(); ++i) {
    m.resize(session.trainables.elements(i));
    if (Status status = session.trainables.read(i, m.data()); !status.ok())
      return status;
    writeLora(session.bundle().content().trainables(static_cast<int>(i)), m, file);
  }
  return finish(file);
}

static Status writeTensors(const Session &session, const std::string &folder) {
  const format::Bundle &bundle = session.bundle().content();
  FileReplacement file(folder + ownTensorsName(bundle));
  std::vector<TensorHead> matrices;
  for (const format::Trainable &trainable : session.bundle().content().trainables())
    matrices.push_back({trainable.name(), "F32", sizeof(float), {trainable.rows(), trainable.columns()}});
  std::string head =
      safetensorsHead(matrices, isPrivateLora(bundle) ? metadataOfDrawn(bundle) : SafeMetadata{{"format", "pt"}});
  file.write(head.data(), head.size());
  std::vector<float> values;
  for (uint32_t i = 0; i < session.trainables.count(); ++i) {
    values.resize(session.trainables.elements(i));
    if (Status status = session.trainables.read(i, values.data()); !status.ok())
      return status;
    file.write(values.data(), values.size() * sizeof(float));
  }
  if (Status status = finish(file); !status.ok())
    return status;
  return isPrivateLora(bundle) ? writeAsLora(session, folder) : Status();
}

static Status writeConfig(const std::string &text, const std::string &folder) {
  FileReplacement file(folder + configName);
  file.write(text.data(), text.size());
  return finish(file);
}

// Takes along what else lies in the folder, without copying it.
static Status linkOthers(const std::string &folder, const format::FolderReplacement &fresh) {
  std::vector<std::string> names;
  if (int reason = format::listFolder(folder, names))
    return systemFailure(folder, "read", reason);
  for (const std::string &name : names) {
    const std::string path = folder + "/" + name;
    struct stat information;
    if ("/" + name == tensorsName || "/" + name == configName || "/" + name == privateTensorsName)
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
static Status replaceAdapter(const Session &session, const std::string &text, const std::string &folder) {
  format::FolderReplacement fresh(folder);
  if (int reason = fresh.open())
    return systemFailure(folder, "make a folder beside it", reason);
  if (Status status = writeTensors(session, fresh.file("")); !status.ok())
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
Status saveAdapter(const Session &session, const std::string &folder) {
  if (Status status = checkLora(session); !status.ok())
    return status;
  if (Status status = session.trainables.checkWhole(); !status.ok())
    return status;
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  const std::string text = adapterConfig(session.bundle().content());
  Result<std::string> settings = readFile(folder + configName, 1 << 20);
  if (!settings.ok() && settings.status().code() != MEBP_NOT_FOUND)
    return settings.status();
  const bool hasOtherM = !isPrivateLora(session.bundle().content()) && fileSize(folder + privateTensorsName).ok();
  if (settings.ok() && (*settings != text || hasOtherM))
    return replaceAdapter(session, text, folder);
  if (Status status = writeTensors(session, folder); !status.ok() || settings.ok())
    return status;
  return writeConfig(text, folder);
}

uint64_t adapterDiskBytes(const Session &session, const std::string &folder) {
  uint64_t elements = 0;
  for (const format::Trainable &trainable : session.bundle().content().trainables()) {
    elements += static_cast<uint64_t>(trainable.rows()) * trainable.columns();
    if (trainable.has_between())
      for (const TensorHead &head : headsOfLora(trainable))
        elements += head.shape[0] * head.shape[1];
  }
  uint64_t needed = 2 * elements * sizeof(float);
  Result<uint64_t> there = fileSize(folder + tensorsName);
  return there.ok() ? needed - std::min(needed, *there) : needed;
}

// The modules that the adapter has tensors of, as mebpc's --lora-targets takes them.
static std::string targetsOf(const std::vector<SafeTensor> &tensors) {
  std::set<std::string> modules;
  for (const SafeTensor &tensor : tensors)
    modules.emplace(format::moduleOf(format::adaptedLayer(tensor.name)));
  std::string list;
  for (const std::string &name : modules)
    list += (list.empty() ? "" : ",") + name;
  return list;
}

static Status checkNoOthers(const std::vector<SafeTensor> &tensors, const format::Bundle &bundle) {
  std::set<std::string> trained;
  for (const format::Trainable &trainable : bundle.trainables())
    trained.insert(trainable.name());
  for (const SafeTensor &tensor : tensors)
    if (format::adaptedLayer(tensor.name).empty())
      return failure(MEBP_UNSUPPORTED,
                     "has '%s', and only LoRA of linear layers is supported; train or save the adapter without it",
                     tensor.name.c_str());
  for (const SafeTensor &tensor : tensors)
    if (!trained.count(tensor.name))
      return failure(MEBP_INCOMPATIBLE,
                     "has '%s', which this bundle does not train; compile its base model with --lora-targets %s",
                     tensor.name.c_str(), targetsOf(tensors).c_str());
  return Status();
}

static Status checkTensor(const SafeTensor &tensor, const format::Trainable &trainable) {
  const char *name = trainable.name().c_str();
  if (tensor.shape != std::vector<uint64_t>{trainable.rows(), trainable.columns()}) {
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

static Status loadTensors(Session &session, const MappedFile &file) {
  const format::Bundle &bundle = session.bundle().content();
  std::vector<SafeTensor> tensors;
  SafeMetadata metadata;
  if (Status status = readSafetensors(file, "save the adapter again", tensors, &metadata); !status.ok())
    return status;
  if (Status status = checkNoOthers(tensors, bundle); !status.ok())
    return status;
  std::unordered_map<std::string, const SafeTensor *> byName;
  for (const SafeTensor &tensor : tensors)
    byName[tensor.name] = &tensor;
  std::vector<const SafeTensor *> matched;
  for (const format::Trainable &trainable : bundle.trainables()) {
    auto found = byName.find(trainable.name());
    if (found == byName.end())
      return failure(MEBP_INCOMPATIBLE,
                     "lacks '%s', which this bundle trains; take an adapter of all its target modules (this one has "
                     "%s), or compile with this one's",
                     trainable.name().c_str(), targetsOf(tensors).c_str());
    if (Status status = checkTensor(*found->second, trainable); !status.ok())
      return status;
    matched.push_back(found->second);
  }
  if (isPrivateLora(bundle))
    if (Status status = checkDrawn(metadata, bundle); !status.ok())
      return status;
  std::vector<float> values;
  for (uint32_t i = 0; i < matched.size(); ++i) {
    values.resize(session.trainables.elements(i));
    widen(*matched[i], values.data());
    if (Status status = session.trainables.write(i, values.data()); !status.ok())
      return status;
  }
  return file.isCut() ? failure(MEBP_IO, "was cut off while it was read; load an adapter again") : Status();
}

Status loadAdapter(Session &session, const std::string &folder) {
  if (Status status = checkLora(session); !status.ok())
    return status;
  Result<std::string> config = readFile(folder + configName, 1 << 20);
  if (!config.ok())
    return config.status();
  const std::string path = folder + ownTensorsName(session.bundle().content());
  if (isPrivateLora(session.bundle().content()) && fileSize(path).status().code() == MEBP_NOT_FOUND)
    return failure(MEBP_INCOMPATIBLE,
                   "%s: has no %s, of which a bundle of --adapter private-lora reads its M; choose an adapter that "
                   "such a bundle wrote",
                   folder.c_str(), privateTensorsName + 1);
  if (Status status = checkAdapterConfig(*config, session.bundle().content()); !status.ok())
    return status.in(folder + configName);
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  return loadTensors(session, *file).in(path);
}

} // namespace mebp
