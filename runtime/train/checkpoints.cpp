// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoints.h"

#include <algorithm>

#include "format/half.h"

namespace mebp {

void Checkpoints::create(layout::CheckpointPlan planned, std::vector<layout::Border> flowing,
                         unsigned char *sessionMemory, SpillFile &sessionFile, const MemoryCheck &memoryCheck) {
  check = memoryCheck;
  plan = std::move(planned);
  borders = std::move(flowing);
  memory = sessionMemory;
  file = &sessionFile;
}

// The head reads the second place and writes the first, the block before it reads that one, and so on.
static unsigned turnOf(uint32_t count, uint32_t block) { return (count - block) % 2; }

// A backward reads a spilled input where the file is mapped, a forward where it flows.
unsigned char *Checkpoints::placeOf(uint32_t block, bool givesGradients) const {
  uint32_t before = block - 1;
  if (before >= count() || plan.places[before] == layout::noOffset || (plan.spilled && !givesGradients))
    return memory + plan.flow[1 - turnOf(count(), before)];
  if (plan.spilled) // read only: no program writes an input
    return const_cast<unsigned char *>(file->data() + plan.places[before]);
  return memory + plan.places[before];
}

void *Checkpoints::inputOf(uint32_t block, std::string_view flow, bool givesGradients) const {
  return placeOf(block, givesGradients) + borders[block - 1].find(flow).offset;
}

void *Checkpoints::cotangentOf(uint32_t block, std::string_view flow) const {
  return memory + plan.flow[turnOf(count(), block)] + borders[block].find(flow).offset;
}

void *Checkpoints::headInput(std::string_view name, uint64_t row) const {
  const layout::Flow &flow = borders.back().find(name);
  return placeOf(count() + 1, false) + flow.offset + row * flow.rowBytes;
}

void Checkpoints::gatherHeadInput(Rows rows) const {
  if (plan.gathered)
    return;
  for (const layout::Flow &flow : borders.back().flows)
    gatherRows(headInput(flow.name, 0), flow.rowBytes, rows);
}

static void scaleRow(void *row, const layout::Flow &flow, float factor) {
  for (uint64_t column = 0; column < flow.columns; ++column)
    if (flow.storage == format::Storage::BF16) {
      uint16_t &value = static_cast<uint16_t *>(row)[column];
      value = format::floatToBfloat(factor * format::bfloatToFloat(value));
    } else {
      static_cast<float *>(row)[column] *= factor;
    }
}

void Checkpoints::scaleHeadCotangents(const float *factors, uint64_t rows) const {
  for (const layout::Flow &flow : borders.back().flows) {
    auto *data = static_cast<unsigned char *>(cotangentOf(count(), flow.name));
    for (uint64_t row = 0; row < rows; ++row)
      scaleRow(data + row * flow.rowBytes, flow, factors[row]);
  }
}

void Checkpoints::scatterHeadCotangents(Rows rows, uint64_t total) const {
  if (plan.gathered)
    return;
  for (const layout::Flow &flow : borders.back().flows)
    scatterRows(cotangentOf(count(), flow.name), flow.rowBytes, rows, total);
}

Status Checkpoints::keepOutput(uint32_t block, uint64_t rows) {
  if (!isSpilled(block))
    return Status();
  for (const layout::Flow &flow : borders[block].flows) {
    uint64_t place = plan.places[block] + flow.offset, bytes = rows * flow.rowBytes;
    if (Status status = file->write(place, outputOf(block, flow.name), bytes); !status.ok())
      return status;
    file->writeBack(place, bytes);
  }
  return Status();
}

void Checkpoints::endInput(uint32_t block) const {
  if (block > 0 && !plan.spilled && plan.places[block - 1] != layout::noOffset)
    check.clear(memory + plan.places[block - 1], plan.bytes);
}

Status Checkpoints::fetchInput(uint32_t block, uint64_t rows) const {
  if (block == 0 || !isSpilled(block - 1))
    return Status();
  if (block > 1 && isSpilled(block - 2))
    file->readAhead(plan.places[block - 2], borders[block - 2].spanOf(rows));
  return file->prepareRead(plan.places[block - 1], borders[block - 1].spanOf(rows));
}

void Checkpoints::dropInput(uint32_t block, uint64_t rows) const {
  if (block > 0 && isSpilled(block - 1))
    file->drop(plan.places[block - 1], borders[block - 1].spanOf(rows));
}

// Where the output of `block` begins a segment, its input ends the one before, and that one's shared places have been
// another's since.
BlockRange Checkpoints::lostBefore(uint32_t block) const {
  if (block >= count() || !plan.isKept(block))
    return {};
  const uint32_t begin = block >= plan.spacing ? block - plan.spacing + 1 : 0;
  return {plan.first > 0 ? std::max(begin, plan.first + 1) : begin, block};
}

} // namespace mebp
