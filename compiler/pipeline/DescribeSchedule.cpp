// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/DescribeSchedule.h"

#include "format/byte_size.h"
#include "layout/checkpoints.h"

namespace mebp {

static std::string describeInputs(const Schedule &schedule, uint64_t layers, bool areAll) {
  const auto spacing = static_cast<uint64_t>(schedule.spacing);
  const uint64_t kept = schedule.spill == Spill::None ? layout::placesOf(layers, spacing, areAll) : layers;
  if (kept < layers)
    return "the inputs of " + std::to_string(kept) + " of " + std::to_string(layers) + " layers";
  return layers == 1 ? (areAll ? "the input of the only layer" : "the input of the last layer")
                     : (areAll ? "the inputs of all " : "the inputs of the last ") + std::to_string(layers) + " layers";
}

std::string describeSchedule(const Schedule &schedule, uint64_t layers, bool areAll, uint64_t valueBytes) {
  std::string text = schedule.chunk ? std::to_string(schedule.chunk) + " tokens at a time" : "whole sequences";
  if (layers > 0) {
    text += schedule.spill == Spill::None ? ", keeps " : ", writes ";
    text += describeInputs(schedule, layers, areAll);
  }
  if (schedule.spill != Spill::None)
    text += schedule.spill == Spill::All ? ", what is trained and the optimizer's state to disk" : " to disk";
  if (valueBytes > 0)
    text += " and " + format::formatMegabytes(valueBytes) + " of their intermediate values";
  return text + ", loss for " + std::to_string(schedule.lossRows) + " tokens x " +
         std::to_string(schedule.lossColumns) + " vocabulary entries at a time";
}

} // namespace mebp
