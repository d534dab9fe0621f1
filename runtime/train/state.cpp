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

static std::string headOf(const Engine &engine, uint64_t userBytes) {
  std::vector<TensorHead> tensors;
  for (const SavedTensor &tensor : engine.trainables.saved())
    tensors.push_back(
        {tensor.name, nameOf(tensor.type), bytesOf(tensor.type), {tensor.shape.rows, tensor.shape.columns}});
  return stateHead(runOf(engine), tensors, userBytes);
}

Status saveState(const Engine &engine, const std::string &folder, const void *user, uint64_t userBytes) {
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
  const std::string head = headOf(engine, userBytes);
  write(head.data(), head.size());
  if (Status status = engine.trainables.save(write); !status.ok())
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

// The bytes of what the session has, in its order, and nothing else.
static Status matchTensors(const StateFile &state, const Engine &engine, std::vector<const unsigned char *> &out) {
  const std::vector<SavedTensor> own = engine.trainables.saved();
  for (const SavedTensor &tensor : own) {
    auto found = state.tensors.find(tensor.name);
    const char *type = nameOf(tensor.type);
    const std::vector<uint64_t> shape = {tensor.shape.rows, tensor.shape.columns};
    if (found == state.tensors.end() || found->second.type != type || found->second.shape != shape ||
        found->second.bytes != tensor.bytes())
      return failure(MEBP_INCOMPATIBLE,
                     "has no '%s' of %llu x %llu in %s, which this session keeps; continue with the same options",
                     tensor.name.c_str(), static_cast<unsigned long long>(shape[0]),
                     static_cast<unsigned long long>(shape[1]), type);
    if (Status status = checkCounts(tensor, found->second.data); !status.ok())
      return status;
    out.push_back(found->second.data);
  }
  if (state.tensors.size() != own.size())
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
