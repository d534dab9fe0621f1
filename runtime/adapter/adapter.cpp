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
#include "runtime/adapter/safetensors.h"
#include "runtime/core/files.h"

namespace mebp {

static constexpr char tensorsName[] = "/adapter_model.safetensors";
static constexpr char configName[] = "/adapter_config.json";

Status checkLora(const Session &session) {
  if (session.bundle().model().lora().rank() > 0)
    return Status();
  return failure(MEBP_UNSUPPORTED, "the bundle was compiled with --train full, so it has no adapter; read what it has "
                                   "trained from a session");
}

static Status writeTensors(const Session &session, const std::string &folder) {
  FileReplacement file(folder + tensorsName);
  std::vector<MatrixName> matrices;
  for (const format::Trainable &trainable : session.bundle().content().trainables())
    matrices.push_back({trainable.name(), trainable.rows(), trainable.columns()});
  std::string head = safetensorsHead(matrices);
  file.write(head.data(), head.size());
  for (uint32_t i = 0; i < session.trainables.count(); ++i)
    file.write(session.trainables.parameters(i), session.trainables.elements(i) * sizeof(float));
  if (Status status = file.sync(); !status.ok())
    return status;
  return file.replace();
}

static Status writeConfig(const std::string &text, const std::string &folder) {
  FileReplacement file(folder + configName);
  file.write(text.data(), text.size());
  if (Status status = file.sync(); !status.ok())
    return status;
  return file.replace();
}

// Takes along what else lies in the folder, without copying it.
static Status linkOthers(const std::string &folder, const format::FolderReplacement &fresh) {
  std::vector<std::string> names;
  if (int reason = format::listFolder(folder, names))
    return systemFailure(folder, "read", reason);
  for (const std::string &name : names) {
    const std::string path = folder + "/" + name;
    struct stat information;
    if ("/" + name == tensorsName || "/" + name == configName)
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
  if (settings.ok() && *settings != text)
    return replaceAdapter(session, text, folder);
  if (Status status = writeTensors(session, folder); !status.ok() || settings.ok())
    return status;
  return writeConfig(text, folder);
}

uint64_t adapterDiskBytes(const Session &session, const std::string &folder) {
  uint64_t needed = 0;
  for (uint32_t i = 0; i < session.trainables.count(); ++i)
    needed += 2 * session.trainables.elements(i) * sizeof(float);
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
  if (Status status = readSafetensors(file, tensors); !status.ok())
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
  for (uint32_t i = 0; i < matched.size(); ++i)
    widen(*matched[i], session.trainables.parameters(i));
  return file.isCut() ? failure(MEBP_IO, "was cut off while it was read; load an adapter again") : Status();
}

Status loadAdapter(Session &session, const std::string &folder) {
  if (Status status = checkLora(session); !status.ok())
    return status;
  Result<std::string> config = readFile(folder + configName, 1 << 20);
  if (!config.ok())
    return config.status();
  if (Status status = checkAdapterConfig(*config, session.bundle().content()); !status.ok())
    return status.in(folder + configName);
  Result<MappedFile> file = MappedFile::open(folder + tensorsName);
  if (!file.ok())
    return file.status();
  return loadTensors(session, *file).in(folder + tensorsName);
}

} // namespace mebp
