// SPDX-License-Identifier: Apache-2.0
//
// What the halves of a split model agree on: who runs what, and the frames that pass between them.
//
// A step runs a model's blocks in their order, and the programs of a block in theirs (format/ports.h). Where one that
// runs here follows one that runs there, what the one gives and the other takes is a message. So the order of messages
// is that of the programs, and both halves know each before it comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/alignment.h"
#include "format/ports.h"
#include "format/programs.h"

namespace mebp::format {

// Places. The device has the user's text, labels and adapter.
constexpr std::string_view devicePlace = "device", serverPlace = "server";

// A frame: this head, then `bytes` of a body.
struct FrameHead {
  uint8_t version = 1;
  uint8_t kind = 0;      // FrameKind
  uint16_t stage = 0;    // of a message: Stage
  uint32_t sequence = 0; // of frames that its sender has sent, from 1 on
  uint32_t received = 0; // the last one that its sender has received
  uint32_t block = 0;    // of a message: whose flow or program's it is; of a command: the batch
  uint32_t rows = 0;     // of a message; of a command: the length of a sequence
  uint32_t position = 0; // of a command to decode: the first row's
  uint32_t reserved = 0;
  uint32_t bytes = 0;
};
static_assert(sizeof(FrameHead) == 32, "mebp wire and mebp audit have this size");

enum class FrameKind : uint8_t {
  Hello = 1, // begins a stream; body: Hello
  Welcome,   // answers it; body: Hello, or a line where `sequence` is 0: refused
  Forward,   // the device asks for a forward; body: the rows whose result it wants, int32, where the head comes next
  Backward,  // and for the backward of the last one; body: likewise
  Decode,    // for the next rows of sequences; body: likewise
  Draft,     // likewise, but each row has the bits of one alone
  Message,
  Error, // the server cannot go on; body: a line
  Bye,   // the device needs the session no more
  Waves, // as Decode, for rows of a prompt that come in two waves (firstWave); the body's are of the second one
};

// A pass of a prompt crosses in two waves, so that one is computed while the other is under way. The second one lies in
// the second half of the memory that a pass of `most` rows has, where every row's place is aligned.
constexpr uint32_t leastWave = 16;
constexpr uint32_t secondWaveRow(uint32_t most) { return most / 2 / 32 * 32; }
// Of a pass of `count` tokens of each sequence, how many the first wave has; 0: the pass goes as one.
constexpr uint32_t firstWave(uint32_t most, uint32_t batch, uint32_t count) {
  const uint32_t half = (count + 1) / 2, room = secondWaveRow(most) / batch, first = half < room ? half : room;
  const uint32_t second = count - first;
  return first * batch >= leastWave && second * batch <= most - secondWaveRow(most) ? first : 0;
}

struct Hello {
  uint64_t pair = 0;     // of both bundles
  uint64_t session = 0;  // that goes on; 0: a new one
  uint32_t received = 0; // the last frame of the peer's
  char kernels[28] = {}; // the family that runs, for people: where both have the same, bits are those of one process

  void setFamily(std::string_view name) {
    for (size_t i = 0; i + 1 < sizeof kernels; ++i)
      kernels[i] = i < name.size() ? name[i] : '\0';
  }
  // Of letters that a line may have, whatever the peer has sent.
  std::string family() const {
    std::string name;
    for (size_t i = 0; i < sizeof kernels && kernels[i]; ++i)
      name += kernels[i] > ' ' && kernels[i] <= '~' ? kernels[i] : '?';
    return name;
  }
};
static_assert(sizeof(Hello) == 48, "a greeting is the same on every machine");

// The last frames that were sent, kept until the peer has them. Neither side sends more than three before it receives
// one: a command, a message, and the message before.
constexpr uint64_t keptFrames = 4;
constexpr uint64_t bytesOfKeptFrames(uint64_t largestBody) {
  return keptFrames * alignUp(sizeof(FrameHead) + largestBody);
}

} // namespace mebp::format
