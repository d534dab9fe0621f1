// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/PrintWire.h"

#include "format/channels.h"
#include "format/readable.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace mebp {

using format::Channel, format::Passing;

namespace {

/// Rows that an action lets cross, and how many of them where the head comes next.
struct Action {
  const char *name;
  uint64_t rows, selected;
};

/// Alike but for the block, one block after the other.
struct Row {
  Channel first;
  uint32_t last;
  uint64_t count = 1;
};

/// Messages of one kind together, in the order in which the first of each passes.
SmallVector<Row> groupAlike(ArrayRef<Channel> channels) {
  SmallVector<Row> rows;
  for (const Channel &channel : channels) {
    auto alike = find_if(rows, [&](const Row &row) {
      const Channel &other = row.first;
      return other.stage == channel.stage && other.isUp == channel.isUp && other.columns == channel.columns &&
             other.storage == channel.storage && (channel.block == row.last + 1 || channel.block + 1 == row.last);
    });
    if (alike == rows.end())
      rows.push_back({channel, channel.block});
    else
      alike->last = channel.block, ++alike->count;
  }
  return rows;
}

/// Of a prompt, each of which the server gives the last row of: as many rows at once as the programs take.
uint64_t countPasses(const format::Bundle &device, uint64_t rows) {
  uint64_t most = device.model().sequence();
  for (const format::BlockProgram &named : device.blocks(0).programs())
    if (named.name() == format::decodeProgram) {
      const format::Program &program = device.programs(static_cast<int>(named.program()));
      most = std::min<uint64_t>(most, program.values(static_cast<int>(program.outputs(0).value())).rows());
    }
  return divideCeil(rows, most);
}

void printPassing(raw_ostream &stream, const format::Bundle &device, StringRef title, Passing passing,
                  ArrayRef<Action> actions) {
  constexpr auto *line = "  {0,-46} {1,-34} {2,-4} {3,7} {4,-4} {5,9}";
  stream << title << "\n" << formatv(line, "block", "what", "way", "numbers", "type", "messages");
  for (const Action &action : actions)
    stream << formatv(" {0,24}", action.name);
  stream << "\n";
  const std::vector<Channel> channels = listChannels(device, passing);
  auto nameOf = [&](uint32_t block) { return format::readable(device.blocks(static_cast<int>(block)).name()); };
  SmallVector<std::pair<uint64_t, uint64_t>> totals(actions.size()); // up and down
  for (const Row &row : groupAlike(channels)) {
    const Channel &channel = row.first;
    std::string blocks = nameOf(channel.block) + (row.count > 1 ? " to " + nameOf(row.last) : "");
    stream << formatv(line, blocks, format::nameOf(channel.stage), channel.isUp ? "up" : "down", channel.columns,
                      format::nameOf(channel.storage), row.count);
    for (auto [action, total] : zip_equal(actions, totals)) {
      const uint64_t bytes = row.count * channel.rowBytes() * (channel.isSelected ? action.selected : action.rows);
      (channel.isUp ? total.first : total.second) += bytes;
      stream << formatv(" {0,24:n}", bytes);
    }
    stream << "\n";
  }
  for (bool isUp : {true, false}) {
    stream << formatv(line, isUp ? "all up" : "all down", "", "", "", "", "");
    for (auto [up, down] : totals)
      stream << formatv(" {0,24:n}", isUp ? up : down);
    stream << "\n";
  }
}

} // namespace

void printWire(raw_ostream &stream, const format::Bundle &device) {
  const format::Model &model = device.model();
  const uint64_t tokens = uint64_t(model.batch()) * model.sequence();
  const std::string step = formatv("bytes, {0} tokens", tokens);
  stream << "what crosses, in bodies of messages; mebp wire adds heads, round trips and times\n";
  printPassing(stream, device, "forward, each row predicting a label:", Passing::Forward,
               {{"bytes a row", 1, 1}, {step.c_str(), tokens, tokens}});
  printPassing(stream, device, "and back, in a training step:", Passing::Backward,
               {{"bytes a row", 1, 1}, {step.c_str(), tokens, tokens}});
  if (!model.positions())
    return;
  const uint64_t prompt = std::max(1u, model.positions() / 2);
  const std::string asked = formatv("a prompt of {0} tokens", prompt);
  printPassing(stream, device, "generating text:", Passing::Decode,
               {{"a token", 1, 1}, {asked.c_str(), prompt, countPasses(device, prompt)}});
}

} // namespace mebp
