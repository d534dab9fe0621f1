// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trainables.h"

#include <algorithm>
#include <cstring>

#include "format/optimizers.h"
#include "format/random.h"
#include "runtime/optim/direction.h"
#include "runtime/train/options.h"

namespace mebp {

uint64_t trainableElements(const format::Bundle &bundle, uint32_t index) {
  const format::Trainable &trainable = bundle.trainables(static_cast<int>(index));
  return static_cast<uint64_t>(trainable.rows()) * trainable.columns();
}

TrainablePlan planTrainables(const format::Bundle &bundle, const mebp_session_options &options, Placer &memory,
                             Placer &file) {
  TrainablePlan plan;
  uint64_t largest = 0;
  plan.begin = memory.total();
  for (uint32_t i = 0; i < static_cast<uint32_t>(bundle.trainables_size()); ++i) {
    uint64_t bytes = trainableBytes(bundle, i);
    plan.places.push_back(memory.take(bytes) - plan.begin);
    largest = std::max(largest, bytes);
  }
  plan.arrayBytes = memory.total() - plan.begin;
  uint32_t arrays = isForwardOnly(options) ? 0 : format::findOptimizer(options.optimizer)->stateArrays;
  for (uint32_t i = 0; i < arrays; ++i)
    plan.states.push_back(memory.take(options.state_in_file ? largest : plan.arrayBytes));
  plan.bytes = plan.arrayBytes + (options.state_in_file ? 0 : arrays * plan.arrayBytes);
  plan.fileBytes = options.state_in_file ? arrays * plan.arrayBytes : 0;
  plan.fileBegin = file.take(plan.fileBytes);
  return plan;
}

void Trainables::create(const format::Bundle &content, TrainablePlan planned, const mebp_session_options &given,
                        unsigned char *sessionMemory, bool isFresh, SpillFile &sessionFile) {
  bundle = &content;
  plan = std::move(planned);
  options = optionsOf(given);
  rule = updateOf(given.optimizer);
  memory = sessionMemory;
  file = &sessionFile;
  // Fresh pages stay untouched until a step needs them.
  if (!isFresh)
    std::memset(memory + plan.begin, 0, plan.bytes);
  uint64_t seed = bundle->model().lora().seed();
  for (uint32_t i = 0; i < count(); ++i) {
    float bound = bundle->trainables(static_cast<int>(i)).initial_bound();
    for (uint64_t element = 0; bound != 0 && element < elements(i); ++element)
      parameters(i)[element] = format::randomUniform(seed, i, element, bound);
  }
}

Status Trainables::readInitial(Bundle &opened) {
  for (uint32_t i = 0; i < count(); ++i)
    if (const format::Trainable &trainable = bundle->trainables(static_cast<int>(i)); trainable.has_initial_weight())
      if (Status status = opened.readWeight(trainable.initial_weight(), parameters(i)); !status.ok())
        return status;
  return Status();
}

float *Trainables::parameters(uint32_t trainable) const {
  return reinterpret_cast<float *>(memory + plan.begin + plan.places[trainable]);
}

float *Trainables::stateOf(uint32_t trainable, uint32_t array) const {
  return reinterpret_cast<float *>(memory + plan.states[array] + (plan.fileBytes ? 0 : plan.places[trainable]));
}

Status Trainables::readFile(uint64_t offset, void *data, uint64_t bytes) const {
  return file->read(plan.fileBegin + offset, data, bytes);
}

Status Trainables::writeFile(uint64_t offset, const void *data, uint64_t bytes) {
  Status status = file->write(plan.fileBegin + offset, data, bytes);
  file->writeBack(plan.fileBegin + offset, bytes);
  return status;
}

Status Trainables::update(uint32_t trainable, const float *gradient) {
  float *state[format::maximumStateArrays] = {};
  bool filed = plan.fileBytes != 0;
  uint64_t bytes = elements(trainable) * sizeof(float);
  for (uint32_t i = 0; i < plan.states.size(); ++i) {
    state[i] = stateOf(trainable, i);
    if (filed)
      if (Status status = readFile(i * plan.arrayBytes + plan.places[trainable], state[i], bytes); !status.ok())
        return status;
  }
  changed = true;
  rule(options, stepsDone + 1, parameters(trainable), gradient, state, elements(trainable));
  for (uint32_t i = 0; filed && i < plan.states.size(); ++i)
    if (Status status = writeFile(i * plan.arrayBytes + plan.places[trainable], state[i], bytes); !status.ok())
      return status;
  return Status();
}

Status Trainables::endStep(const Status &status) {
  if (status.ok())
    ++stepsDone;
  if (status.ok() || !changed)
    return status;
  poisoned = true;
  return Status(status.code(), status.message() + "; some parameters have been updated: load the last saved state or "
                                                  "start over");
}

Status Trainables::setLearningRate(double rate) {
  Status status = checkLearningRate(rate);
  if (status.ok())
    options.learningRate = rate;
  return status;
}

Status Trainables::checkWhole() const {
  if (!poisoned)
    return Status();
  return failure(MEBP_POISONED, "a step has failed after it had updated some parameters; load the last saved state or "
                                "start over");
}

void Trainables::addDirection(float factor) {
  uint64_t seed = format::randomBits(bundle->model().lora().seed(), 0, stepsDone);
  for (uint32_t i = 0; i < count(); ++i)
    mebp::addDirection(parameters(i), elements(i), seed, i, factor);
}

void Trainables::scale(float factor) {
  for (uint32_t i = 0; i < count(); ++i) {
    float *values = parameters(i);
    for (uint64_t element = 0; element < elements(i); ++element)
      values[element] *= factor;
  }
}

Status Trainables::save(const std::function<void(const unsigned char *data, uint64_t bytes)> &take) const {
  take(memory + plan.begin, plan.bytes);
  std::vector<unsigned char> piece(std::min<uint64_t>(plan.fileBytes, 1 << 16));
  for (uint64_t done = 0; done < plan.fileBytes; done += piece.size()) {
    uint64_t bytes = std::min<uint64_t>(piece.size(), plan.fileBytes - done);
    if (Status status = readFile(done, piece.data(), bytes); !status.ok())
      return status;
    take(piece.data(), bytes);
  }
  return Status();
}

Status Trainables::load(const unsigned char *saved) {
  poisoned = true;
  if (Status status = writeFile(0, saved + plan.bytes, plan.fileBytes); !status.ok())
    return status;
  std::memcpy(memory + plan.begin, saved, plan.bytes);
  poisoned = false;
  return Status();
}

} // namespace mebp
