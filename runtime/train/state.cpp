// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/state.h"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#include "format/container.h"
#include "runtime/core/files.h"
#include "runtime/optim/lazy_refresh.h"
#include "runtime/optim/session_options.h"
#include "runtime/train/state_file.h"

namespace mebp {

static std::string newestFile(const std::string &folder) { return folder + "/state.bin"; }
static std::string previousFile(const std::string &folder) { return folder + "/state.previous.bin"; }

static SavedRun runOf(const Engine &engine) {
  SavedRun run;
  const OptimizerOptions &options = engine.trainables.options;
  const Optimizer &optimizer = *findOptimizer(engine.options().optimizer);
  run.bundle = engine.bundle().identity();
  run.kernels = engine.kernels();
  run.steps = engine.trainables.steps();
  run.optimizer = optimizer.name;
  run.options = {
      {"learning_rate", options.learningRate}, {"weight_decay", options.weightDecay}, {"clip", engine.options().clip}};
  for (const OptimizerOption &option : optimizerOptions)
    if (optimizer.takes(option))
      run.options[option.name] = options.*option.value;
  return run;
}

static std::string headOf(const Engine &engine, uint64_t userBytes, bool isWhole = false) {
  std::vector<TensorHead> tensors;
  for (const SavedTensor &tensor : engine.trainables.saved(isWhole))
    tensors.push_back(
        {tensor.name, nameOf(tensor.type), bytesOf(tensor.type), {tensor.shape.rows, tensor.shape.columns}});
  return stateHead(runOf(engine), tensors, userBytes);
}

static Status writeState(const Engine &engine, const std::string &folder, const OthersParts *others, const void *user,
                         uint64_t userBytes) {
  if (Status status = engine.trainables.checkSaves(); !status.ok())
    return status;
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  std::string newest = newestFile(folder), previous = previousFile(folder);
  FileReplacement file(newest);
  uint32_t checksum = 0;
  auto write = [&](const void *data, uint64_t bytes) {
    checksum = format::crc32(data, bytes, checksum);
    file.write(data, bytes);
  };
  const std::string head = headOf(engine, userBytes, others != nullptr);
  write(head.data(), head.size());
  if (Status status = engine.trainables.save(write, others); !status.ok())
    return status;
  write(user, userBytes);
  const uint32_t whole = checksum;
  file.write(&whole, sizeof(whole));
  if (Status status = file.sync(); !status.ok())
    return status;
  // Another run's state is not a generation of this one's.
  bool isOwn = engine.stateFolder == folder;
  bool keeps = isOwn && ::access(newest.c_str(), F_OK) == 0;
  if (Status status = keeps ? file.replaceAndKeep(previous) : file.replace(); !status.ok())
    return status;
  if (!isOwn)
    ::unlink(previous.c_str());
  engine.stateFolder = folder;
  return Status();
}

Status saveState(const Engine &engine, const std::string &folder, const void *user, uint64_t userBytes) {
  return writeState(engine, folder, nullptr, user, userBytes);
}

// The newest, or the one before it where that is damaged or missing, which `note` then says.
static Status openNewest(const std::string &folder, StateFile &out, std::string &note) {
  Status newest = openState(newestFile(folder), out);
  if (newest.code() != MEBP_CORRUPT && newest.code() != MEBP_NOT_FOUND)
    return newest;
  Status previous = openState(previousFile(folder), out);
  if (previous.code() == MEBP_NOT_FOUND)
    return newest;
  if (!previous.ok())
    return Status(previous.code(), newest.message() + "; " + previous.message());
  std::string what = newest.code() == MEBP_NOT_FOUND ? "is missing" : "is damaged";
  note =
      newestFile(folder) + ": " + what + ", so the state before it is used, of step " + std::to_string(out.run.steps);
  return Status();
}

static Status checkOption(const std::string &name, double current, const SavedRun &run) {
  auto saved = run.options.find(name);
  if (saved == run.options.end())
    return failure(MEBP_INCOMPATIBLE, "was saved without %s, the session has %g; continue with the same options",
                   name.c_str(), current);
  if (saved->second == current)
    return Status();
  return failure(MEBP_INCOMPATIBLE, "was saved with %s %g, the session has %g; continue with the same options",
                 name.c_str(), saved->second, current);
}

static Status checkOrigin(const SavedRun &run, const Engine &engine) {
  const SavedRun own = runOf(engine);
  if (run.bundle != own.bundle)
    return failure(MEBP_INCOMPATIBLE, "was saved from another bundle; continue with that one or start over");
  if (run.optimizer != own.optimizer)
    return failure(MEBP_INCOMPATIBLE, "was saved with another optimizer, %s; continue with the same one",
                   run.optimizer.c_str());
  if (engine.options().reference_kernels && run.kernels != own.kernels)
    return failure(MEBP_INCOMPATIBLE,
                   "was saved with %s kernels, the session was created with the reference ones; continue without them",
                   run.kernels.c_str());
  for (const auto &[name, value] : own.options)
    if (name != "learning_rate")
      if (Status status = checkOption(name, value, run); !status.ok())
        return status;
  auto rate = run.options.find("learning_rate");
  return checkLearningRate(rate == run.options.end() ? -1 : rate->second);
}

// Of what a state keeps, these alone are taken for more than numbers that are computed with.
static Status checkCounts(const SavedTensor &tensor, const unsigned char *data) {
  if (tensor.type != format::KeptType::I64)
    return Status();
  int64_t numbers[format::PeriodNumbers];
  std::memcpy(numbers, data, sizeof(numbers));
  if (LazyRefresh::arePossible(numbers))
    return Status();
  return failure(MEBP_CORRUPT, "'%s' has counts that no run leaves; the file is damaged, start over",
                 tensor.name.c_str());
}

Status joinStates(const Engine &engine, const std::string &folder, const std::vector<std::string> &parts,
                  const void *user, uint64_t userBytes) {
  std::vector<StateFile> files(parts.size());
  OthersParts others;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (Status status = openState(newestFile(parts[i]), files[i]); !status.ok())
      return status;
    if (Status status = checkOrigin(files[i].run, engine); !status.ok())
      return status.in(parts[i]);
    if (files[i].run.steps != engine.trainables.steps())
      return failure(MEBP_INCOMPATIBLE,
                     "%s: was saved after step %llu, and this session has made %llu; join states of "
                     "one step",
                     parts[i].c_str(), static_cast<unsigned long long>(files[i].run.steps),
                     static_cast<unsigned long long>(engine.trainables.steps()));
    for (const auto &[name, tensor] : files[i].tensors) {
      const auto mark = name.rfind(partMark);
      const bool isCut = mark != std::string::npos;
      const uint64_t element = tensor.bytes / std::max<uint64_t>(tensor.shape[0] * tensor.shape[1], 1);
      const uint64_t begin = isCut ? std::strtoull(name.c_str() + mark + 1, nullptr, 10) : 0;
      others[name.substr(0, mark)].push_back({begin * element, tensor.data, tensor.bytes});
    }
  }
  if (Status status = writeState(engine, folder, &others, user, userBytes); !status.ok())
    return status;
  for (const StateFile &file : files)
    if (file.file.isCut())
      return failure(MEBP_IO, "%s: a part's state was cut off while it was read; save again", folder.c_str());
  return Status();
}

static bool fits(const SafeTensor &found, format::KeptType type, const format::ArrayShape &shape) {
  return found.type == nameOf(type) && found.shape == std::vector<uint64_t>{shape.rows, shape.columns} &&
         found.bytes == shape.elements() * bytesOf(type);
}
// Null where there is none. A part may be that of an array that is there whole.
static const unsigned char *findTensor(const StateFile &state, const SavedTensor &own) {
  if (const auto found = state.tensors.find(own.name); found != state.tensors.end())
    return fits(found->second, own.type, own.shape) ? found->second.data : nullptr;
  const auto whole = own.whole.empty() ? state.tensors.end() : state.tensors.find(own.whole);
  return whole != state.tensors.end() && fits(whole->second, own.type, own.wholeShape)
             ? whole->second.data + own.begin * bytesOf(own.type)
             : nullptr;
}

// The bytes of what the session has, in its order, and nothing else but what others own.
static Status matchTensors(const StateFile &state, const Engine &engine, std::vector<const unsigned char *> &out) {
  const std::vector<SavedTensor> own = engine.trainables.saved();
  for (const SavedTensor &tensor : own) {
    const unsigned char *data = findTensor(state, tensor);
    if (!data)
      return failure(MEBP_INCOMPATIBLE,
                     "has no '%s' of %llu x %llu in %s, which this session keeps; continue with the same options",
                     tensor.name.c_str(), static_cast<unsigned long long>(tensor.shape.rows),
                     static_cast<unsigned long long>(tensor.shape.columns), nameOf(tensor.type));
    if (Status status = checkCounts(tensor, data); !status.ok())
      return status;
    out.push_back(data);
  }
  const size_t there = state.tensors.size();
  if (there != own.size() && there != engine.trainables.saved(/*isWhole=*/true).size())
    return failure(MEBP_INCOMPATIBLE, "has tensors that this session does not keep; continue with the same options");
  return Status();
}

Status loadState(Engine &engine, const std::string &folder, void *user, uint64_t *userBytes) {
  StateFile saved;
  std::string note;
  std::vector<const unsigned char *> tensors;
  if (Status status = openNewest(folder, saved, note); !status.ok())
    return status;
  if (Status status = checkOrigin(saved.run, engine); !status.ok())
    return status.in(folder);
  if (Status status = matchTensors(saved, engine, tensors); !status.ok())
    return status.in(folder);
  if (user && userBytes && *userBytes < saved.user.bytes) {
    uint64_t room = *userBytes;
    *userBytes = saved.user.bytes;
    return failure(MEBP_INVALID_ARGUMENT, "%s: holds %llu bytes of the caller's, there is room for %llu",
                   folder.c_str(), static_cast<unsigned long long>(saved.user.bytes),
                   static_cast<unsigned long long>(room));
  }
  if (Status status = engine.trainables.load(tensors); !status.ok())
    return status;
  if (user && userBytes && saved.user.bytes)
    std::memcpy(user, saved.user.data, saved.user.bytes);
  if (saved.file.isCut())
    return failure(MEBP_IO, "%s: a state was cut off while it was read; load one again", folder.c_str());
  if (userBytes)
    *userBytes = saved.user.bytes;
  engine.trainables.setSteps(saved.run.steps);
  engine.trainables.options.learningRate = saved.run.options["learning_rate"];
  engine.stateFolder = folder;
  std::string family = engine.useKernels(saved.run.kernels);
  engine.notes = note + (note.empty() || family.empty() ? "" : "; ") + family;
  if (!engine.notes.empty())
    engine.log(MEBP_LOG_WARNING, engine.notes);
  return Status();
}

uint64_t stateDiskBytes(const Engine &engine, const std::string &folder) {
  uint64_t needed = headOf(engine, 0).size(), there = 0;
  for (const SavedTensor &tensor : engine.trainables.saved())
    needed += tensor.bytes();
  needed *= 3;
  for (const std::string &path : {newestFile(folder), previousFile(folder)})
    if (Result<uint64_t> size = fileSize(path); size.ok())
      there += *size;
  return needed - std::min(needed, there);
}

Status readStateSteps(const std::string &folder, uint64_t &steps) {
  StateFile saved;
  std::string ignored;
  Status status = openNewest(folder, saved, ignored);
  if (status.ok())
    steps = saved.run.steps;
  return status;
}

} // namespace mebp
