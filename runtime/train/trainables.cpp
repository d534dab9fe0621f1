// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trainables.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "format/half.h"
#include "format/optimizers.h"
#include "format/random.h"
#include "format/stored_row.h"
#include "runtime/optim/codes.h"
#include "runtime/optim/direction.h"
#include "runtime/optim/session_options.h"
#include "runtime/optim/subspace.h"

namespace mebp {

static format::StateOptions stateOptionsOf(const mebp_session_options &options) { return {options.momentum != 0}; }

static constexpr char valuePrefix[] = "value/"; // of the value's adapter in a saved state

Status checkTrainables(const format::Bundle &bundle, const mebp_session_options &options) {
  const format::OptimizerTraits &traits = *format::findOptimizer(options.optimizer);
  for (const format::Trainable &trainable : bundle.trainables()) {
    const format::Storage storage = storageOf(trainable);
    if (storage != format::Storage::F32 && traits.forwardOnly)
      return failure(MEBP_UNSUPPORTED,
                     "%s moves '%s' and moves it back, which %s would round; compile with --weights f32, or take "
                     "another optimizer",
                     traits.name, trainable.name().c_str(), format::nameOf(storage));
    if (storage == format::Storage::Int8 && !traits.changesInt8)
      return failure(
          MEBP_UNSUPPORTED, "%s does not change '%s', which is int8; choose %s, or compile with --weights bf16",
          traits.name, trainable.name().c_str(),
          format::listed(namesOf(format::optimizers, std::mem_fn(&format::OptimizerTraits::changesInt8))).c_str());
  }
  return Status();
}

void Trainables::create(const format::Bundle &content, layout::TrainablePlan planned, const mebp_session_options &given,
                        unsigned char *sessionMemory, bool isFresh, SpillFile &sessionFile, Workers *sessionWorkers,
                        const MemoryCheck &memoryCheck) {
  bundle = &content;
  check = memoryCheck;
  plan = std::move(planned);
  options = optionsOf(given);
  stateOptions = stateOptionsOf(given);
  optimizer = findOptimizer(given.optimizer);
  traits = format::findOptimizer(given.optimizer);
  memory = sessionMemory;
  file = &sessionFile;
  workers = sessionWorkers;
  // Fresh pages stay untouched until a step needs them.
  if (!isFresh)
    std::memset(memory + plan.memoryBegin, 0, plan.memoryEnd - plan.memoryBegin);
}

Status Trainables::initialize(Bundle &opened) {
  const uint64_t seed = seedOf(bundle->model());
  for (uint32_t i = 0; i < count(); ++i) {
    const format::Trainable &trainable = bundle->trainables(static_cast<int>(i));
    if (trainable.initial_bound() == 0 && !trainable.has_initial_weight())
      continue; // zeros, which fresh memory and a new file have
    if (trainable.has_initial_weight()) {
      if (Status status = takeBase(i, opened); !status.ok())
        return status;
      continue;
    }
    auto *values = reinterpret_cast<float *>(tensorOf(i).parameters);
    for (uint64_t element = 0; element < elements(i); ++element)
      values[element] = format::randomUniform(seed, i, element, trainable.initial_bound());
    if (Status status = storeWeight(i); !status.ok())
      return status;
  }
  if (Status status = beginAlike(); !status.ok())
    return status;
  return opened.checkWeights();
}

// Bytes as they are stored: both have the same type.
Status Trainables::takeBase(uint32_t number, Bundle &opened) {
  const format::Trainable &trainable = bundle->trainables(static_cast<int>(number));
  unsigned char *parameters = tensorOf(number).parameters;
  if (!trainable.has_initial_weight()) {
    std::memset(parameters, 0, bytesOf(number));
    return storeWeight(number);
  }
  if (Status status = opened.checkAllWeights(); !status.ok())
    return status;
  const format::Weight &weight = bundle->weights(static_cast<int>(trainable.initial_weight()));
  const layout::WeightParts parts(bundle->trainables(static_cast<int>(number)));
  const WeightMemory initial = opened.weightMemory(trainable.initial_weight());
  if (format::storageOf(weight.element()) == storage(number)) {
    std::memcpy(parameters, initial.data, parts.data);
    if (parts.groups) {
      std::memcpy(parameters + parts.scalesAt(), initial.scales, parts.groups);
      std::memcpy(parameters + parts.minimaAt(), initial.minima, parts.groups);
    }
  } else if (Status status = opened.readWeight(trainable.initial_weight(), reinterpret_cast<float *>(parameters));
             !status.ok()) {
    return status;
  }
  return storeWeight(number);
}

format::Storage Trainables::storage(uint32_t trainable) const {
  return storageOf(bundle->trainables(static_cast<int>(trainable)));
}
uint64_t Trainables::bytesOf(uint32_t trainable) const {
  return layout::WeightParts(bundle->trainables(static_cast<int>(trainable))).bytes();
}

StoredPlace Trainables::projectorPlace(uint32_t trainable) const {
  const TrainedTensor tensor = tensorOf(trainable);
  auto find = [&](std::string_view name) -> const void * {
    const uint32_t index = format::findKept(*traits, name);
    return index < format::maximumKept ? tensor.kept[index] : nullptr;
  };
  if (traits->projector == format::Storage::F32)
    return {find(format::projectorArray)};
  return {find(format::projectorCodes), find(format::projectorScales), find(format::projectorMinima)};
}

bool Trainables::isRefreshDue(uint32_t trainable) const {
  return traits->projects && shapeOf(trainable).rank > 0 &&
         optimizer->projector.isDue(options, stepsDone(), tensorOf(trainable));
}

bool Trainables::isRefreshDue() const {
  for (uint32_t i = 0; i < count(); ++i)
    if (isRefreshDue(i))
      return true;
  return false;
}

void Trainables::countRefreshes(uint64_t &made, uint64_t &ofFixedPeriod) const {
  made = ofFixedPeriod = 0;
  const auto interval = static_cast<uint64_t>(options.galoreUpdateInterval);
  const uint32_t period = format::findKept(*traits, format::periodArray);
  for (uint32_t i = 0; i < count() && traits->projects; ++i) {
    if (shapeOf(i).rank == 0)
      continue;
    const uint64_t fixed = (stepsDone() + interval - 1) / interval;
    ofFixedPeriod += fixed;
    made += period < format::maximumKept ? static_cast<uint64_t>(tensorOf(i).array<int64_t>(period)[format::Refreshes])
                                         : fixed;
  }
}

uint64_t Trainables::weightPlace(uint32_t trainable, Adapter of) const {
  return plan.begin + (of == inUse ? 0 : plan.weightBytes) + plan.places[trainable];
}
uint64_t Trainables::keptPlace(uint32_t trainable, Adapter of) const {
  return plan.keptBegin + static_cast<uint64_t>(of) * plan.keptBytes + plan.kept[trainable];
}

uint64_t Trainables::filedBytesOf(uint32_t trainable) const {
  return !plan.isKeptFiled || plan.kept.empty() || !owns(trainable)
             ? 0
             : format::keptBytes(*traits, keptShapeOf(trainable), stateOptions, false);
}

StoredPlace Trainables::place(uint32_t trainable) const {
  const unsigned char *data = (plan.areWeightsFiled ? file->data() : memory) + weightPlace(trainable, inUse);
  const layout::WeightParts parts(bundle->trainables(static_cast<int>(trainable)));
  if (!parts.groups)
    return {data};
  return {data, data + parts.scalesAt(), data + parts.minimaAt()};
}

TrainedTensor Trainables::tensorOf(uint32_t trainable, Adapter of) const {
  TrainedTensor tensor;
  tensor.shape = trainedShape(*bundle, trainable);
  tensor.parameters = memory + (plan.areWeightsFiled ? plan.weightRoom : weightPlace(trainable, of));
  tensor.isNarrow = storage(trainable) == format::Storage::BF16;
  if (const layout::WeightParts parts(bundle->trainables(static_cast<int>(trainable))); parts.groups) {
    tensor.scales = reinterpret_cast<uint16_t *>(tensor.parameters + parts.scalesAt());
    tensor.minima = reinterpret_cast<uint16_t *>(tensor.parameters + parts.minimaAt());
  }
  const uint64_t ofStep = format::randomBits(seedOf(bundle->model()), 2, stepsOf[static_cast<size_t>(of)]);
  tensor.roundingSeed = format::randomBits(ofStep, trainable, 0);
  tensor.scratch = memory + plan.scratch;
  if (!plan.kept.empty()) {
    unsigned char *others =
        owns(trainable) ? memory + (plan.isKeptFiled ? plan.keptRoom : keptPlace(trainable, of)) : nullptr;
    format::placeKept(*traits, keptShapeOf(trainable), stateOptions, memory + plan.readBegin + plan.read[trainable],
                      others, tensor.kept);
  }
  return tensor;
}

Status Trainables::loadRooms(uint32_t trainable, Adapter of) const {
  const TrainedTensor tensor = tensorOf(trainable, of);
  const uint64_t keptBytes = filedBytesOf(trainable);
  if (plan.areWeightsFiled)
    if (Status status = file->read(weightPlace(trainable, of), tensor.parameters, bytesOf(trainable)); !status.ok())
      return status;
  return keptBytes ? file->read(keptPlace(trainable, of), memory + plan.keptRoom, keptBytes) : Status();
}

Status Trainables::store(uint64_t place, const void *data, uint64_t bytes) {
  Status status = file->write(place, data, bytes);
  file->writeBack(place, bytes);
  return status;
}
Status Trainables::storeWeight(uint32_t trainable, Adapter of) {
  return plan.areWeightsFiled ? store(weightPlace(trainable, of), memory + plan.weightRoom, bytesOf(trainable))
                              : Status();
}
Status Trainables::storeKept(uint32_t trainable, Adapter of) {
  const uint64_t bytes = filedBytesOf(trainable);
  return bytes ? store(keptPlace(trainable, of), memory + plan.keptRoom, bytes) : Status();
}

Status Trainables::read(uint32_t trainable, Adapter of, float *out) const {
  if (Status status = loadRooms(trainable, of); !status.ok())
    return status;
  const TrainedTensor tensor = tensorOf(trainable, of);
  for (uint64_t row = 0; row < tensor.shape.rows; ++row)
    format::readRow(tensor.storedRow(row), 0, static_cast<int64_t>(tensor.shape.columns),
                    out + row * tensor.shape.columns);
  return Status();
}

Status Trainables::write(uint32_t trainable, const float *values) {
  const TrainedTensor tensor = tensorOf(trainable);
  if (tensor.isCoded()) {
    for (uint64_t row = 0; row < tensor.shape.rows; ++row)
      roundToNearest(values + row * tensor.shape.columns, tensor.shape.columns, tensor.codedRow(row));
    return storeWeight(trainable);
  }
  if (!tensor.isNarrow)
    std::memcpy(tensor.parameters, values, bytesOf(trainable));
  for (uint64_t i = 0; tensor.isNarrow && i < elements(trainable); ++i)
    reinterpret_cast<uint16_t *>(tensor.parameters)[i] = format::floatToBfloat(values[i]);
  return storeWeight(trainable);
}

Status Trainables::fetch(const format::Block &block) const {
  for (const format::Parameter &parameter : block.parameters())
    if (plan.areWeightsFiled && parameter.has_trainable())
      if (Status status =
              file->prepareRead(plan.begin + plan.places[parameter.trainable()], bytesOf(parameter.trainable()));
          !status.ok())
        return status;
  return Status();
}

void Trainables::drop(const format::Block &block) const {
  for (const format::Parameter &parameter : block.parameters())
    if (plan.areWeightsFiled && parameter.has_trainable())
      file->drop(plan.begin + plan.places[parameter.trainable()], bytesOf(parameter.trainable()));
}

Status Trainables::update(uint32_t trainable, const float *gradient) {
  if (!owns(trainable))
    return Status();
  if (Status status = loadRooms(trainable, inUse); !status.ok())
    return status;
  changed = true;
  TrainedTensor tensor = tensorOf(trainable);
  tensor.gradient = gradient;
  tensor.workers = workers;
  if (isCut(trainable)) { // so it goes by elements, each for itself
    const uint64_t begin = plan.owned[trainable].begin;
    tensor.shape = keptShapeOf(trainable);
    tensor.parameters += begin * (tensor.isNarrow ? sizeof(uint16_t) : sizeof(float));
    tensor.gradient += begin;
  }
  check.clear(tensor.scratch, plan.memoryEnd - plan.scratch);
  OptimizerOptions own = options;
  if (embeddingRate && isOfTokens(trainable))
    own.learningRate = *embeddingRate;
  optimizer->update(own, stepsDone() + 1, tensor);
  if (Status status = storeWeight(trainable); !status.ok())
    return status;
  return storeKept(trainable, inUse);
}

Status Trainables::updateByWhole(uint32_t trainable, const float *gradient) {
  const format::TrainedShape shape = shapeOf(trainable);
  if (shape.rank == 0)
    return update(trainable, gradient);
  // The caller has whole gradients in memory, so that a little more is not what matters.
  std::vector<unsigned char> workspace(svdWorkspaceBytes(shape));
  std::vector<float> projected(shape.gradientElements());
  if (isRefreshDue(trainable)) {
    if (!projectorOfGradient(shape, gradient, projectorRoom(trainable), workspace.data()))
      return failure(MEBP_NOT_FINITE, "the singular value decomposition of the gradient of '%s' does not converge",
                     nameOf(trainable).c_str());
    keepProjector(trainable);
  }
  project(shape, gradient, optimizer->projector.read(tensorOf(trainable)), projected.data());
  return update(trainable, projected.data());
}

Status Trainables::endStep(const Status &status) {
  if (status.ok())
    ++stepsOf[static_cast<size_t>(inUse)];
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

bool Trainables::isOfTokens(uint32_t number) const {
  const format::Trainable &trainable = bundle->trainables(static_cast<int>(number));
  return trainable.has_rows_of() ||
         (trainable.has_initial_weight() && trainable.rows() == bundle->model().vocabulary());
}

Status Trainables::setEmbeddingLearningRate(double rate) {
  bool isAny = false;
  for (uint32_t i = 0; i < count(); ++i)
    isAny = isAny || isOfTokens(i);
  if (!isAny)
    return failure(MEBP_INVALID_ARGUMENT, "the bundle trains no embedding and no rows of new tokens, which a learning "
                                          "rate of their own would be for; leave it out");
  if (traits->forwardOnly)
    return failure(MEBP_INVALID_ARGUMENT, "%s moves all parameters by one rate; leave out that of the embedding",
                   optimizer->name);
  Status status = checkLearningRate(rate);
  if (status.ok())
    embeddingRate = rate;
  return status;
}

Status Trainables::checkWhole() const {
  if (!poisoned)
    return Status();
  return failure(MEBP_POISONED, "a step has failed after it had updated some parameters; load the last saved state or "
                                "start over");
}

// Only with an optimizer that checkTrainables lets have f32 alone, and that has them in memory.
void Trainables::addDirection(float factor) {
  uint64_t seed = format::randomBits(seedOf(bundle->model()), 0, stepsDone());
  for (uint32_t i = 0; i < count(); ++i)
    mebp::addDirection(reinterpret_cast<float *>(tensorOf(i).parameters), elements(i), seed, i, factor);
}

void Trainables::scale(float factor) {
  for (uint32_t i = 0; i < count(); ++i) {
    auto *values = reinterpret_cast<float *>(tensorOf(i).parameters);
    for (uint64_t element = 0; element < elements(i); ++element)
      values[element] *= factor;
  }
}

double Trainables::squareOf(uint32_t trainable, const float *gradient, double *tiles) const {
  const layout::ElementRange part = owned(trainable);
  return mebp::squareOf(workers, gradient + part.begin, part.count(), format::normTile(gradientElements(trainable)),
                        tiles);
}
double Trainables::squareOf(uint32_t trainable, const float *gradient) const {
  double tiles[format::mostNormTiles];
  return squareOf(trainable, gradient, tiles);
}

double Trainables::squareOfWhole(uint32_t trainable, const float *gradient) const {
  return shapeOf(trainable).rank ? mebp::squareOf(workers, gradient, elements(trainable))
                                 : squareOf(trainable, gradient);
}

std::vector<SavedTensor> Trainables::saved(bool isWhole) const {
  std::vector<SavedTensor> tensors;
  for (uint32_t adapter = 0; adapter < plan.adapters; ++adapter)
    for (uint32_t i = 0; i < count(); ++i)
      addSaved(i, adapter ? valuePrefix : "", isWhole, tensors);
  return tensors;
}

static std::string nameOfKept(const std::string &trainable, const format::KeptArray &array) {
  return trainable + "/" + array.name;
}

void Trainables::addSaved(uint32_t trainable, const std::string &prefix, bool isWhole,
                          std::vector<SavedTensor> &out) const {
  const format::TrainedShape shape = trainedShape(*bundle, trainable);
  const std::string name = prefix + nameOf(trainable);
  const format::Storage stored = storage(trainable);
  const format::ArrayShape groups = {shape.rows, format::groupsOf(stored, shape.columns)};
  out.push_back({name,
                 stored == format::Storage::Int8   ? format::KeptType::U8
                 : stored == format::Storage::BF16 ? format::KeptType::BF16
                                                   : format::KeptType::F32,
                 {shape.rows, format::strideOf(stored, shape.columns)},
                 {},
                 {},
                 0});
  for (const char *part : {"/scales", "/minima"})
    if (groups.columns)
      out.push_back({name + part, format::KeptType::F16, groups, {}, {}, 0});
  const bool isPart = !isWhole && isCut(trainable);
  const format::TrainedShape kept = isPart ? keptShapeOf(trainable) : shape;
  for (const format::KeptArray &array : traits->kept) {
    if (plan.kept.empty() || !(isWhole || owns(trainable) || array.isRead) || !array.bytes(kept, stateOptions))
      continue;
    SavedTensor saved = {nameOfKept(name, array), array.type, array.shape(kept, stateOptions), {}, {}, 0};
    if (isPart) {
      saved.whole = saved.name;
      saved.wholeShape = array.shape(shape, stateOptions);
      saved.begin = plan.owned[trainable].begin;
      saved.name += partMark + std::to_string(saved.begin);
    }
    out.push_back(std::move(saved));
  }
}

// One that several sessions have in parts, from its beginning to its end.
Status Trainables::joinKept(const std::string &name, const SavedPart &own, uint64_t bytes, const OthersParts &others,
                            const TakeBytes &take) const {
  std::vector<SavedPart> parts;
  if (const auto found = others.find(name); found != others.end())
    parts = found->second;
  if (own.data)
    parts.push_back(own);
  std::sort(parts.begin(), parts.end(),
            [](const SavedPart &one, const SavedPart &other) { return one.begin < other.begin; });
  uint64_t taken = 0;
  for (const SavedPart &part : parts) {
    if (part.begin != taken)
      break;
    take(part.data, part.bytes);
    taken += part.bytes;
  }
  return taken == bytes
             ? Status()
             : failure(MEBP_INCOMPATIBLE,
                       "the parts have %llu of the %llu bytes of '%s'; give the state of each session that "
                       "owns a part, of the same step",
                       static_cast<unsigned long long>(taken), static_cast<unsigned long long>(bytes), name.c_str());
}

Status Trainables::save(const TakeBytes &take, const OthersParts *others) const {
  for (uint32_t number = 0; number < plan.adapters * count(); ++number) {
    const auto adapter = static_cast<Adapter>(number / count());
    const uint32_t i = number % count();
    if (Status status = loadRooms(i, adapter); !status.ok())
      return status;
    const TrainedTensor tensor = tensorOf(i, adapter);
    const layout::WeightParts parts(bundle->trainables(static_cast<int>(i)));
    take(tensor.parameters, parts.data);
    for (uint16_t *groups : {tensor.scales, tensor.minima})
      if (groups)
        take(reinterpret_cast<unsigned char *>(groups), parts.groups);
    const format::TrainedShape kept = keptShapeOf(i);
    for (uint32_t array = 0; array < format::maximumKept; ++array) {
      const format::KeptArray &of = traits->kept[array];
      const SavedPart own = {isCut(i) ? plan.owned[i].begin * format::bytesOf(of.type) : 0, tensor.kept[array],
                             tensor.kept[array] ? of.bytes(kept, stateOptions) : 0};
      const uint64_t whole = of.bytes(tensor.shape, stateOptions);
      if (!others && own.data)
        take(own.data, own.bytes);
      else if (others && whole && !plan.kept.empty())
        if (Status status = joinKept(std::string(number / count() ? valuePrefix : "") + nameOfKept(nameOf(i), of), own,
                                     whole, *others, take);
            !status.ok())
          return status;
    }
  }
  return Status();
}

Status Trainables::load(const std::vector<const unsigned char *> &tensors) {
  poisoned = true;
  inUse = Adapter::Policy; // all of both is replaced
  auto next = tensors.begin();
  for (uint32_t number = 0; number < plan.adapters * count(); ++number) {
    const auto of = static_cast<Adapter>(number / count());
    const uint32_t i = number % count();
    const TrainedTensor tensor = tensorOf(i, of);
    const layout::WeightParts parts(bundle->trainables(static_cast<int>(i)));
    std::memcpy(tensor.parameters, *next++, parts.data);
    for (uint16_t *groups : {tensor.scales, tensor.minima})
      if (groups)
        std::memcpy(groups, *next++, parts.groups);
    for (uint32_t array = 0; array < format::maximumKept; ++array)
      if (tensor.kept[array])
        std::memcpy(tensor.kept[array], *next++, traits->kept[array].bytes(keptShapeOf(i), stateOptions));
    if (Status status = storeWeight(i, of); !status.ok())
      return status;
    if (Status status = storeKept(i, of); !status.ok())
      return status;
  }
  poisoned = false;
  return Status();
}

} // namespace mebp
