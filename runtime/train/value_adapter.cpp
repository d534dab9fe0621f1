// SPDX-License-Identifier: Apache-2.0
//
// A session's second adapter, of a value head that does not share the policy's (trainables.h).
//
// Programs are bound to one place. So the adapter that is to be used is brought there and the other one goes where that
// was: a copy of two adapters, which is little beside the forward that follows. What the optimizer keeps stays.
#include <algorithm>
#include <cstring>

#include "runtime/train/trainables.h"

namespace mebp {

Status Trainables::beginAlike() {
  for (uint32_t i = 0; i < count() && hasValueAdapter(); ++i) {
    if (Status status = loadRooms(i, Adapter::Policy); !status.ok())
      return status;
    if (!plan.areWeightsFiled) // else both have the same room
      std::memcpy(tensorOf(i, Adapter::Value).parameters, tensorOf(i, Adapter::Policy).parameters, bytesOf(i));
    if (Status status = storeWeight(i, Adapter::Value); !status.ok())
      return status;
  }
  return Status();
}

// Piece by piece, for there is room in memory for one trainable alone.
Status Trainables::exchangeFiled(uint64_t place, uint64_t other, uint64_t bytes) {
  unsigned char pieces[2][4096];
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t piece = std::min<uint64_t>(bytes - done, sizeof(pieces[0]));
    Status status = file->read(place + done, pieces[0], piece);
    if (status.ok())
      status = file->read(other + done, pieces[1], piece);
    if (status.ok())
      status = file->write(place + done, pieces[1], piece);
    if (status.ok())
      status = file->write(other + done, pieces[0], piece);
    if (!status.ok())
      return status;
    done += piece;
  }
  file->writeBack(place, bytes);
  file->writeBack(other, bytes);
  return Status();
}

Status Trainables::use(Adapter adapter) {
  if (adapter == inUse)
    return Status();
  if (plan.areWeightsFiled) {
    if (Status status = exchangeFiled(plan.begin, plan.begin + plan.weightBytes, plan.weightBytes); !status.ok()) {
      poisoned = true;
      return status;
    }
  } else {
    unsigned char *first = memory + plan.begin;
    std::swap_ranges(first, first + plan.weightBytes, first + plan.weightBytes);
  }
  inUse = adapter;
  return Status();
}

Status Trainables::checkSaves() const {
  Status status = checkWhole();
  if (!status.ok() || !hasValueAdapter() || stepsOf[0] == stepsOf[1])
    return status;
  return failure(MEBP_POISONED, "one of the policy's adapter and the value's has taken a step that the other has not; "
                                "finish the step, or load the last saved state");
}

} // namespace mebp
