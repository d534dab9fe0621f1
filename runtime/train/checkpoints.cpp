// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoints.h"

#include <algorithm>

#include "format/container.h"
#include "format/half.h"
#include "format/lookup.h"
#include "runtime/train/options.h"

namespace mebp {

// Of the programs that generate, or of the others that a session runs.
static bool flowsInPlace(const format::Bundle &bundle, bool generates) {
  std::vector<bool> runs(static_cast<size_t>(bundle.programs_size()));
  for (const format::Block &block : bundle.blocks())
    for (const format::ProgramTraits &use : format::knownPrograms)
      if (int32_t number = programOf(block, use.name);
          number != format::noProgram && use.is(format::Generates) == generates)
        runs[static_cast<size_t>(number)] = true;
  for (int i = 0; i < bundle.programs_size(); ++i) {
    const format::Program &program = bundle.programs(i);
    auto anyFlow = [](const format::Ports &ports) {
      return std::any_of(ports.begin(), ports.end(),
                         [](const format::Port &port) { return port.kind() == format::Port::FLOW; });
    };
    if (runs[static_cast<size_t>(i)] && !program.in_place() && anyFlow(program.inputs()) && anyFlow(program.outputs()))
      return false;
  }
  return true;
}

static void placeInFile(CheckpointPlan &plan, uint32_t count, uint64_t bytes, Placer &file) {
  // Each in pages of its own, which come and go with it.
  uint64_t stride = (bytes + format::regionAlignment - 1) / format::regionAlignment * format::regionAlignment;
  for (uint32_t i = 0; i < count; ++i)
    plan.places.push_back(file.take(stride));
  plan.fileBytes = file.total();
}

// Of half a model: each layer that runs here keeps its input.
static void placeWhereRun(CheckpointPlan &plan, const format::Bundle &bundle, uint64_t bytes, Placer &memory) {
  for (int block = 1; block + 1 < bundle.blocks_size(); ++block)
    plan.places.push_back(
        programOf(bundle.blocks(block), format::forwardProgram) == format::noProgram ? noOffset : memory.take(bytes));
}

static void placeInSegments(CheckpointPlan &plan, uint32_t count, uint32_t spacing, uint64_t bytes, Placer &memory) {
  plan.spacing = std::clamp(spacing, 1u, std::max(count, 1u));
  plan.missing = (plan.spacing - count % plan.spacing) % plan.spacing;
  std::vector<uint64_t> shared(plan.spacing, noOffset);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t own = noOffset;
    uint64_t &place = plan.isKept(i) ? own : shared[(i + plan.missing) % plan.spacing];
    if (place == noOffset)
      place = memory.take(bytes);
    plan.places.push_back(place);
  }
}

static bool receivesGathered(const format::Bundle &bundle) {
  return bundle.has_split() && bundle.split().place() == format::Split::DEVICE && selectsRows(bundle);
}

static uint64_t widestOf(const std::vector<Border> &borders) {
  uint64_t bytes = 0;
  for (const Border &border : borders)
    bytes = std::max(bytes, border.bytes);
  return bytes;
}

CheckpointPlan planCheckpoints(const format::Bundle &bundle, const mebp_session_options &options, Placer &memory,
                               Placer &file) {
  CheckpointPlan plan;
  plan.borders = bordersOf(bundle, format::forwardProgram);
  const uint64_t bytes = widestOf(plan.borders);
  auto count = static_cast<uint32_t>(bundle.blocks_size() - 2);
  plan.forwardOnly = isForwardOnly(options);
  plan.spilled = options.spill_folder && !plan.forwardOnly;
  plan.gathered = receivesGathered(bundle);
  if (plan.forwardOnly)
    plan.places.assign(count, noOffset);
  else if (bundle.has_split())
    placeWhereRun(plan, bundle, bytes, memory);
  else if (plan.spilled)
    placeInFile(plan, count, bytes, file);
  else
    placeInSegments(plan, count, bundle.plan().spacing(), bytes, memory);
  plan.flow[0] = memory.take(bytes);
  plan.flow[1] = flowsInPlace(bundle, false) ? plan.flow[0] : memory.take(bytes);
  return plan;
}

CheckpointPlan planFlows(const format::Bundle &bundle, Placer &memory) {
  CheckpointPlan plan;
  plan.borders = bordersOf(bundle, format::decodeProgram);
  plan.forwardOnly = true;
  plan.gathered = receivesGathered(bundle);
  plan.places.assign(static_cast<size_t>(bundle.blocks_size() - 2), noOffset);
  const uint64_t bytes = widestOf(plan.borders);
  plan.flow[0] = memory.take(bytes);
  plan.flow[1] = flowsInPlace(bundle, true) ? plan.flow[0] : memory.take(bytes);
  return plan;
}

void Checkpoints::create(CheckpointPlan planned, unsigned char *sessionMemory, SpillFile &sessionFile) {
  plan = std::move(planned);
  memory = sessionMemory;
  file = &sessionFile;
}

// The head reads the second place and writes the first, the block before it reads that one, and so on.
static unsigned turnOf(uint32_t count, uint32_t block) { return (count - block) % 2; }

// A backward reads a spilled input where the file is mapped, a forward where it flows.
unsigned char *Checkpoints::placeOf(uint32_t block, bool givesGradients) const {
  uint32_t before = block - 1;
  if (before >= count() || plan.places[before] == noOffset || (plan.spilled && !givesGradients))
    return memory + plan.flow[1 - turnOf(count(), before)];
  if (plan.spilled) // read only: no program writes an input
    return const_cast<unsigned char *>(file->data() + plan.places[before]);
  return memory + plan.places[before];
}

void *Checkpoints::inputOf(uint32_t block, std::string_view flow, bool givesGradients) const {
  return placeOf(block, givesGradients) + plan.borders[block - 1].find(flow).offset;
}

void *Checkpoints::cotangentOf(uint32_t block, std::string_view flow) const {
  return memory + plan.flow[turnOf(count(), block)] + plan.borders[block].find(flow).offset;
}

void *Checkpoints::headInput(std::string_view name, uint64_t row) const {
  const Flow &flow = plan.borders.back().find(name);
  return placeOf(count() + 1, false) + flow.offset + row * flow.rowBytes;
}

void Checkpoints::gatherHeadInput(Rows rows) const {
  if (plan.gathered)
    return;
  for (const Flow &flow : plan.borders.back().flows)
    gatherRows(headInput(flow.name, 0), flow.rowBytes, rows);
}

static void scaleRow(void *row, const Flow &flow, float factor) {
  for (uint64_t column = 0; column < flow.columns; ++column)
    if (flow.storage == format::Storage::BF16) {
      uint16_t &value = static_cast<uint16_t *>(row)[column];
      value = format::floatToBfloat(factor * format::bfloatToFloat(value));
    } else {
      static_cast<float *>(row)[column] *= factor;
    }
}

void Checkpoints::scaleHeadCotangents(const float *factors, uint64_t rows) const {
  for (const Flow &flow : plan.borders.back().flows) {
    auto *data = static_cast<unsigned char *>(cotangentOf(count(), flow.name));
    for (uint64_t row = 0; row < rows; ++row)
      scaleRow(data + row * flow.rowBytes, flow, factors[row]);
  }
}

void Checkpoints::scatterHeadCotangents(Rows rows, uint64_t total) const {
  if (plan.gathered)
    return;
  for (const Flow &flow : plan.borders.back().flows)
    scatterRows(cotangentOf(count(), flow.name), flow.rowBytes, rows, total);
}

Status Checkpoints::keepOutput(uint32_t block, uint64_t rows) {
  if (!isSpilled(block))
    return Status();
  for (const Flow &flow : plan.borders[block].flows) {
    uint64_t place = plan.places[block] + flow.offset, bytes = rows * flow.rowBytes;
    if (Status status = file->write(place, outputOf(block, flow.name), bytes); !status.ok())
      return status;
    file->writeBack(place, bytes);
  }
  return Status();
}

Status Checkpoints::fetchInput(uint32_t block, uint64_t rows) const {
  if (block == 0 || !isSpilled(block - 1))
    return Status();
  if (block > 1)
    file->readAhead(plan.places[block - 2], plan.borders[block - 2].spanOf(rows));
  return file->prepareRead(plan.places[block - 1], plan.borders[block - 1].spanOf(rows));
}

void Checkpoints::dropInput(uint32_t block, uint64_t rows) const {
  if (block > 0 && isSpilled(block - 1))
    file->drop(plan.places[block - 1], plan.borders[block - 1].spanOf(rows));
}

// Where the output of `block` begins a segment, its input ends the one before, and that one's shared places have been
// another's since.
BlockRange Checkpoints::lostBefore(uint32_t block) const {
  if (block >= count() || !plan.isKept(block))
    return {};
  return {block >= plan.spacing ? block - plan.spacing + 1 : 0, block};
}

} // namespace mebp
