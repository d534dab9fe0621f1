// SPDX-License-Identifier: Apache-2.0
#include "format/channels.h"

#include <algorithm>

#include "format/lookup.h"

namespace mebp::format {

namespace {

class Lister {
public:
  Lister(const Bundle &bundle, bool generates) : bundle(bundle), split(bundle.split()), generates(generates) {}

  std::vector<Channel> forward() && {
    addFlow(Stage::Hidden, true);
    for (uint32_t block = split.first_block(); block < split.end_block(); ++block)
      for (const ProgramTraits &forward : forwardPrograms)
        if (const Program *program = find(block, generates ? forward.decode : forward.name)) {
          addRemote(forward.takes, block, false, program->inputs(), *program);
          addRemote(forward.gives, block, true, program->outputs(), *program);
        }
    addTop(Stage::Hidden, false);
    return std::move(channels);
  }

  std::vector<Channel> backward() && {
    addTop(Stage::HiddenCotangent, true);
    const uint32_t lowest = split.lowest_trained();
    for (uint32_t block = split.end_block(); block-- > std::max(split.first_block(), lowest);)
      for (const ProgramTraits *forward = forwardPrograms.end(); forward-- != forwardPrograms.begin();)
        if (const Program *program = find(block, forward->backward)) {
          addRemote(forward->taken(true), block, false, program->inputs(), *program);
          if (block > lowest)
            addRemote(forward->given(true), block, true, program->outputs(), *program);
        }
    if (split.first_block() > lowest)
      addFlow(Stage::HiddenCotangent, false);
    return std::move(channels);
  }

private:
  // Null where the device does not have it.
  const Program *find(uint32_t block, std::string_view name) const {
    const int32_t number = programOf(bundle.blocks(static_cast<int>(block)), name);
    return number == noProgram ? nullptr : &bundle.programs(number);
  }

  void add(Stage stage, uint32_t block, bool isUp, const Repeated<Port> &ports, const Program &program, Port::Kind kind,
           bool cotangents) {
    Channel channel;
    channel.block = block;
    channel.stage = stage;
    channel.isUp = isUp;
    for (const Port &port : ports)
      if (port.kind() == kind && isCotangent(port.name()) == cotangents) {
        const Value &value = program.values(static_cast<int>(port.value()));
        channel.columns += value.columns();
        channel.storage = storageOf(value.element());
      }
    channels.push_back(channel);
  }

  // What one of the adapter's programs takes or gives, where it does.
  void addRemote(Stage stage, uint32_t block, bool isUp, const Repeated<Port> &ports, const Program &program) {
    add(stage, block, isUp, ports, program, Port::REMOTE, isCotangent(stage));
    if (channels.back().columns == 0)
      channels.pop_back();
  }

  // Of the device's last block before the server's, or of its cotangent.
  void addFlow(Stage stage, bool isUp) {
    const uint32_t giver = split.first_block() - 1;
    if (const Program *program = find(giver, generates ? decodeProgram : forwardProgram))
      add(stage, giver, isUp, program->outputs(), *program, Port::FLOW, false);
  }

  // Of the server's last block, as the device takes it.
  void addTop(Stage stage, bool isUp) {
    const bool isHead = static_cast<int>(split.end_block()) + 1 == bundle.blocks_size();
    const Program *program = find(split.end_block(), takerOf(isHead, generates));
    if (!program)
      return;
    add(stage, split.end_block() - 1, isUp, program->inputs(), *program, Port::FLOW, false);
    channels.back().isSelected = isHead;
  }

  const Bundle &bundle;
  const Split &split;
  const bool generates;
  std::vector<Channel> channels;
};

} // namespace

std::vector<Channel> listChannels(const Bundle &device, Passing passing) {
  Lister lister(device, passing == Passing::Decode);
  return passing == Passing::Backward ? std::move(lister).backward() : std::move(lister).forward();
}

} // namespace mebp::format
