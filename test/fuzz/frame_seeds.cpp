// SPDX-License-Identifier: Apache-2.0
#include "frame_seeds.h"

#include <numeric>

#include "test/runtime/support/split_model.h"

namespace mebp::fuzz {

using format::FrameHead;
using format::FrameKind;
using format::Hello;
using format::Stage;

namespace {

constexpr uint32_t batch = test::tinyBatch, sequence = test::tinySequence, rows = batch * sequence;
constexpr uint32_t firstLayer = 1, endLayer = 3;

class Writer {
public:
  explicit Writer(bool toDevice) { sent.toDevice = toDevice; }

  void greet(FrameKind kind, uint32_t received) {
    Hello hello;
    hello.pair = test::tinyPair;
    hello.session = kind == FrameKind::Welcome;
    hello.received = received;
    hello.setFamily("portable");
    FrameHead head;
    head.sequence = kind == FrameKind::Welcome;
    add(kind, head, std::string(reinterpret_cast<const char *>(&hello), sizeof hello));
  }
  void breakOff() { sent.frames.emplace_back().length = breaks; }
  // Of so many sequences, the results of these rows.
  void command(FrameKind kind, uint32_t sequences, uint32_t length, uint32_t position,
               const std::vector<int32_t> &wanted) {
    FrameHead head;
    head.sequence = ++number;
    head.block = sequences;
    head.rows = length;
    head.position = position;
    add(kind, head, std::string(reinterpret_cast<const char *>(wanted.data()), wanted.size() * sizeof(int32_t)));
  }
  void message(Stage stage, uint32_t block, uint32_t count, uint32_t columns) {
    std::vector<float> values(static_cast<size_t>(count) * columns);
    std::iota(values.begin(), values.end(), 1.0f);
    FrameHead head;
    head.sequence = ++number;
    head.stage = static_cast<uint16_t>(stage);
    head.block = block;
    head.rows = count;
    add(FrameKind::Message, head,
        std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)));
  }
  void bye() {
    FrameHead head;
    head.sequence = ++number;
    add(FrameKind::Bye, head, "");
  }

  Sent sent;

private:
  void add(FrameKind kind, FrameHead head, const std::string &body) {
    head.kind = static_cast<uint8_t>(kind);
    head.bytes = static_cast<uint32_t>(body.size());
    sent.frames.push_back({static_cast<uint16_t>(body.size()), head, body});
  }

  uint32_t number = 0;
};

// Those that predict a label: all but the last one of each sequence.
std::vector<int32_t> labelledRows() {
  std::vector<int32_t> wanted;
  for (uint32_t row = 0; row < rows; ++row)
    if (row % sequence + 1 < sequence)
      wanted.push_back(static_cast<int32_t>(row));
  return wanted;
}

void decode(Writer &device, uint32_t position, uint32_t count) {
  device.command(FrameKind::Decode, 1, count, position, {static_cast<int32_t>(count) - 1});
  device.message(Stage::Hidden, firstLayer - 1, count, test::tinyHidden);
  for (uint32_t layer = firstLayer; layer < endLayer; ++layer)
    device.message(Stage::Adapted, layer, count, test::tinyUp);
}

void answerDecode(Writer &server, uint32_t count) {
  for (uint32_t layer = firstLayer; layer < endLayer; ++layer)
    server.message(Stage::Compressed, layer, count, test::tinyDown);
  server.message(Stage::Hidden, endLayer - 1, 1, test::tinyHidden);
}

} // namespace

Sent framesOfDevice() {
  Writer device(false);
  const std::vector<int32_t> wanted = labelledRows();
  device.greet(FrameKind::Hello, 0);
  device.command(FrameKind::Forward, batch, sequence, 0, wanted);
  device.message(Stage::Hidden, firstLayer - 1, rows, test::tinyHidden);
  for (uint32_t layer = firstLayer; layer < endLayer; ++layer)
    device.message(Stage::Adapted, layer, rows, test::tinyUp);
  device.command(FrameKind::Backward, batch, sequence, 0, wanted);
  device.message(Stage::HiddenCotangent, endLayer - 1, static_cast<uint32_t>(wanted.size()), test::tinyHidden);
  for (uint32_t layer = endLayer; layer-- > firstLayer + 1;) // the first one's is of use to nobody
    device.message(Stage::CompressedCotangent, layer, rows, test::tinyDown);
  decode(device, 0, 3);
  decode(device, 3, 1);
  device.bye();
  return device.sent;
}

Sent framesOfServer() {
  Writer server(true);
  server.greet(FrameKind::Welcome, 0);
  for (uint32_t layer = firstLayer; layer < endLayer; ++layer)
    server.message(Stage::Compressed, layer, rows, test::tinyDown);
  server.breakOff();
  server.greet(FrameKind::Welcome, 4); // a command, a hidden state and two layers' v
  server.message(Stage::Hidden, endLayer - 1, static_cast<uint32_t>(labelledRows().size()), test::tinyHidden);
  for (uint32_t layer = endLayer; layer-- > firstLayer;)
    server.message(Stage::AdaptedCotangent, layer, rows, test::tinyUp);
  answerDecode(server, 3);
  answerDecode(server, 1);
  return server.sent;
}

} // namespace mebp::fuzz
