// SPDX-License-Identifier: Apache-2.0
//
// What passes between the halves of a split model, read from the device's half: what mebpc --explain-wire lists and
// what mebp wire counts.
#pragma once

#include <cstdint>
#include <vector>

#include "format/program.pb.h"
#include "format/split.h"
#include "format/storage.h"

namespace mebp::format {

// One message: so many numbers for each row of tokens.
struct Channel {
  uint32_t block = 0; // whose flow, or whose adapter's
  Stage stage = Stage::Hidden;
  bool isUp = false;       // from the device to the server
  bool isSelected = false; // in the rows alone that the head runs on
  uint64_t columns = 0;    // of all that it has in a row
  Storage storage = Storage::F32;
  uint64_t rowBytes() const { return rowBytesOf(storage, columns); }
};

enum class Passing { Forward, Backward, Decode };

// In the order in which they pass. Of a validated bundle, or of one that mebpc has made.
std::vector<Channel> listChannels(const Bundle &device, Passing passing);

} // namespace mebp::format
