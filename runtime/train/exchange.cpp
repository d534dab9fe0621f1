// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/exchange.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/half.h"
#include "format/lookup.h"
#include "format/readable.h"
#include "layout/layout.h"

namespace mebp {

using format::FrameHead;
using format::FrameKind;
using format::Port;
using format::Stage;

uint64_t Exchange::frameBytes(const format::Bundle &bundle) {
  // A greeting and a refusal's line fit, too.
  return bundle.has_split() ? sizeof(FrameHead) + std::max<uint64_t>(layout::largestMessage(bundle), 512) : 0;
}

void Exchange::create(const format::Bundle &content, unsigned char *memory, StreamTimes times, Flight &lanes) {
  bundle = &content;
  flight = &lanes;
  split = &content.split();
  stream.create(memory, layout::largestMessage(content), times);
  received.reserve(isDevice() ? 0 : static_cast<size_t>(mostTokens(content.model())));
}

Status Exchange::sendFrame(const FrameHead &head, uint64_t bytes) {
  return flight->away([&] { return stream.send(head, bytes); });
}

Status Exchange::receiveFrame(FrameHead &head) {
  return flight->away([&] { return stream.receive(head); });
}

Status Exchange::command(const Command &command) {
  FrameHead head;
  head.kind = static_cast<uint8_t>(command.kind);
  head.block = command.batch;
  head.rows = command.sequence;
  head.position = command.position;
  const uint64_t bytes = selectsRows() ? selected.count * sizeof(int32_t) : 0;
  if (bytes)
    std::memcpy(stream.body(), selected.numbers, bytes);
  return sendFrame(head, bytes);
}

Status Exchange::awaitCommand(Command &out) {
  FrameHead head;
  if (Status status = stream.receive(head); !status.ok())
    return status;
  const auto kind = static_cast<FrameKind>(head.kind);
  const format::Model &model = bundle->model();
  if (kind == FrameKind::Bye) {
    out.kind = kind;
    return Status();
  }
  const bool generates = kind == FrameKind::Decode || kind == FrameKind::Draft || kind == FrameKind::Waves;
  const bool isKnown = kind == FrameKind::Forward || kind == FrameKind::Backward || generates;
  const uint64_t rows = static_cast<uint64_t>(head.block) * head.rows;
  if (!isKnown || rows == 0 || head.block > model.batch() || rows > mostTokens(model) ||
      (!generates && head.rows > model.sequence()) || head.bytes % sizeof(int32_t))
    return failure(MEBP_CORRUPT, "the device asks for what the bundle has no room for");
  const auto *numbers = reinterpret_cast<const int32_t *>(stream.received());
  received.assign(numbers, numbers + head.bytes / sizeof(int32_t));
  for (size_t i = 0; i < received.size(); ++i)
    if (received[i] < (i ? received[i - 1] + 1 : 0) || static_cast<uint64_t>(received[i]) >= rows)
      return failure(MEBP_CORRUPT, "the device wants rows that are not there");
  selected = {received.data(), received.size()};
  out = {kind, head.block, head.rows, head.position};
  return Status();
}

Status Exchange::sendError(const std::string &line) {
  FrameHead head;
  head.kind = static_cast<uint8_t>(FrameKind::Error);
  const std::string_view cut = format::cutText(line, static_cast<size_t>(stream.bodyCapacity()));
  std::memcpy(stream.body(), cut.data(), cut.size());
  return stream.send(head, cut.size());
}

Status Exchange::send(Stage stage, uint32_t block, uint64_t rows, uint64_t bytes) {
  FrameHead head;
  head.kind = static_cast<uint8_t>(FrameKind::Message);
  head.stage = static_cast<uint16_t>(stage);
  head.block = block;
  head.rows = static_cast<uint32_t>(rows);
  return sendFrame(head, bytes);
}

// Every size is our own.
Status Exchange::receive(Stage stage, uint32_t block, uint64_t rows, uint64_t bytes) {
  FrameHead head;
  if (Status status = receiveFrame(head); !status.ok())
    return status;
  if (head.kind == static_cast<uint8_t>(FrameKind::Bye))
    return failure(MEBP_DISCONNECTED, "the device has left in the middle of what it asked for");
  const std::string &name = bundle->blocks(static_cast<int>(block)).name();
  if (head.kind != static_cast<uint8_t>(FrameKind::Message) || head.stage != static_cast<uint16_t>(stage) ||
      head.block != block || head.rows != rows || head.bytes != bytes)
    return failure(MEBP_CORRUPT, "the other half sent something else than the %s of block '%s'", nameOf(stage),
                   name.c_str());
  return Status();
}

static bool isFinite(const unsigned char *data, uint64_t bytes, format::Storage storage) {
  if (storage == format::Storage::BF16) {
    const auto *values = reinterpret_cast<const uint16_t *>(data);
    return std::all_of(values, values + bytes / 2, [](uint16_t value) { return (value & 0x7F80) != 0x7F80; });
  }
  const auto *values = reinterpret_cast<const uint32_t *>(data);
  return std::all_of(values, values + bytes / 4, [](uint32_t value) { return (value & 0x7F800000) != 0x7F800000; });
}

static Status notFinite(Stage stage, const format::Bundle &bundle, uint32_t block) {
  return failure(MEBP_NOT_FINITE, "the %s of block '%s' that the other half sent are not finite", nameOf(stage),
                 bundle.blocks(static_cast<int>(block)).name().c_str());
}

Status Exchange::sendPorts(Stage stage, const format::Program &program, uint32_t block, uint64_t rows,
                           const ExchangeMemory &memory) {
  unsigned char *body = stream.body();
  uint64_t bytes = 0;
  for (const Port &port : program.outputs()) {
    if (!isRemote(port, format::isCotangent(stage)))
      continue;
    const uint64_t size = rows * rowBytesOf(valueOf(program, port));
    std::memcpy(body + bytes, memory.remote.at(block, port), size);
    bytes += size;
  }
  return send(stage, block, rows, bytes);
}

Status Exchange::receivePorts(Stage stage, const format::Program &program, uint32_t block, uint64_t rows,
                              const ExchangeMemory &memory) {
  uint64_t bytes = 0;
  for (const Port &port : program.inputs())
    if (isRemote(port, format::isCotangent(stage)))
      bytes += rows * rowBytesOf(valueOf(program, port));
  if (Status status = receive(stage, block, rows, bytes); !status.ok())
    return status;
  const unsigned char *body = stream.received();
  for (const Port &port : program.inputs()) {
    if (!isRemote(port, format::isCotangent(stage)))
      continue;
    const format::Value &value = valueOf(program, port);
    const uint64_t size = rows * rowBytesOf(value);
    if (!isFinite(body, size, format::storageOf(value.element())))
      return notFinite(stage, *bundle, block);
    std::memcpy(memory.remote.at(block, port), body, size);
    body += size;
  }
  return Status();
}

Status Exchange::sendFlows(uint32_t giver, uint64_t rows, const ExchangeMemory &memory, bool cotangents) {
  unsigned char *body = stream.body();
  uint64_t bytes = 0;
  for (const layout::Flow &flow : memory.checkpoints.flowsBehind(giver)) {
    const void *data =
        cotangents ? memory.checkpoints.cotangentOf(giver, flow.name) : memory.checkpoints.outputOf(giver, flow.name);
    std::memcpy(body + bytes, data, rows * flow.rowBytes);
    bytes += rows * flow.rowBytes;
  }
  return send(cotangents ? Stage::HiddenCotangent : Stage::Hidden, giver, rows, bytes);
}

Status Exchange::receiveFlows(uint32_t giver, uint64_t rows, const ExchangeMemory &memory, bool cotangents) {
  const Stage stage = cotangents ? Stage::HiddenCotangent : Stage::Hidden;
  uint64_t bytes = 0;
  for (const layout::Flow &flow : memory.checkpoints.flowsBehind(giver))
    bytes += rows * flow.rowBytes;
  if (Status status = receive(stage, giver, rows, bytes); !status.ok())
    return status;
  const unsigned char *body = stream.received();
  for (const layout::Flow &flow : memory.checkpoints.flowsBehind(giver)) {
    if (!isFinite(body, rows * flow.rowBytes, flow.storage))
      return notFinite(stage, *bundle, giver);
    void *data =
        cotangents ? memory.checkpoints.cotangentOf(giver, flow.name) : memory.checkpoints.outputOf(giver, flow.name);
    std::memcpy(data, body, rows * flow.rowBytes);
    body += rows * flow.rowBytes;
  }
  return Status();
}

} // namespace mebp
