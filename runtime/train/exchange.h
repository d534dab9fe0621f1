// SPDX-License-Identifier: Apache-2.0
//
// What passes between the halves of a split model while a session runs blocks. Both halves walk the same blocks in the
// same order; where one's program follows the other's, a message passes (format/split.h).
#pragma once

#include <cstdint>
#include <vector>

#include "format/lookup.h"
#include "format/program.pb.h"
#include "runtime/split/reliable_stream.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/flight.h"
#include "runtime/train/remote.h"

namespace mebp {

// What the device asks for: of whose rows, and which results it wants.
struct Command {
  format::FrameKind kind = format::FrameKind::Forward;
  uint32_t batch = 0, sequence = 0;
  uint32_t position = 0; // of generation's
};

// The memory that messages come from and go to, of a session or of its generation.
struct ExchangeMemory {
  const Checkpoints &checkpoints;
  const Remote &remote;
};

class Exchange {
public:
  ~Exchange() { stream.bye(); }
  // The largest that passes; 0 of a whole model.
  static uint64_t frameBytes(const format::Bundle &bundle);
  void create(const format::Bundle &content, unsigned char *memory, StreamTimes times, Flight &lanes);

  bool isDevice() const { return split->place() == format::Split::DEVICE; }
  uint32_t first() const { return split->first_block(); }
  uint32_t end() const { return split->end_block(); }
  bool isServed(uint32_t block) const { return block >= first() && block < end(); }
  // Whether the cotangent of a block's input is of use to anybody.
  bool needsInput(uint32_t block) const { return block > split->lowest_trained(); }
  // The rows of the last layer's result that the device wants, where the head comes next; all of them else.
  bool selectsRows() const { return format::selectsRows(*bundle); }

  // `wanted`: see selectsRows; they have to stay until the backward. A server takes them from each command.
  void select(Rows wanted) { selected = wanted; }
  Rows selection() const { return selected; }
  Status command(const Command &command);
  // The server keeps keys and values for one generation of a session, until it is started again.
  bool isDecoding(const void *generation) const { return decoding == generation && decodingAt == stream.session(); }
  void beginDecoding(const void *generation) {
    decoding = generation;
    decodingAt = stream.session();
  }
  // The server's: the next one, whose rows are the selection then.
  Status awaitCommand(Command &out);
  Status sendError(const std::string &line);

  // Of `program`, REMOTE ports: what it gives, or takes. Those of cotangents, or the others, as the stage has it.
  Status sendPorts(format::Stage stage, const format::Program &program, uint32_t block, uint64_t rows,
                   const ExchangeMemory &memory);
  Status receivePorts(format::Stage stage, const format::Program &program, uint32_t block, uint64_t rows,
                      const ExchangeMemory &memory);
  // Rows of the flows behind a block, or of their cotangents; all, or of the selection.
  Status sendFlows(uint32_t giver, uint64_t rows, const ExchangeMemory &memory, bool cotangents);
  Status receiveFlows(uint32_t giver, uint64_t rows, const ExchangeMemory &memory, bool cotangents);

  ReliableStream stream;

private:
  // Other lanes have the turn meanwhile.
  Status sendFrame(const format::FrameHead &head, uint64_t bytes);
  Status receiveFrame(format::FrameHead &head);
  Status send(format::Stage stage, uint32_t block, uint64_t rows, uint64_t bytes);
  Status receive(format::Stage stage, uint32_t block, uint64_t rows, uint64_t bytes);

  const format::Bundle *bundle = nullptr;
  const format::Split *split = nullptr;
  Flight *flight = nullptr;
  Rows selected = {nullptr, 0};
  std::vector<int32_t> received;  // a server's selection
  const void *decoding = nullptr; // the device's
  uint64_t decodingAt = 0;
};

} // namespace mebp
