// SPDX-License-Identifier: Apache-2.0
//
// Runs the blocks of a model, one at a time. A step knows a block by its number; all that goes in and comes out lies in
// the memory that its programs are bound to. So here a block could as well be run by another machine.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "runtime/core/memory.h"
#include "runtime/core/status.h"
#include "runtime/core/trace.h"
#include "runtime/exec/backend.h"
#include "runtime/train/bind.h"
#include "runtime/train/exchange.h"
#include "runtime/train/handed_weights.h"
#include "runtime/train/memory_check.h"
#include "runtime/train/resident_weights.h"

namespace mebp {

// What is live of the largest batch and sequence.
struct LiveShape {
  uint32_t batch = 0, sequence = 0;
  bool isDraft = false; // of generation: tokens that have the bits of one after the other
  float logitScale = 1; // of the head: 1 / temperature
  Dropout dropout = {}; // of a step; its key is that of all blocks
  uint64_t rows() const { return static_cast<uint64_t>(batch) * sequence; }
};

class Blocks {
public:
  // Binds all programs that the memory and the options leave any use for. `scratch` is the running program's. The
  // trace is open where the options name a file.
  void create(const BoundMemory &memory, const mebp_session_options &options, Backend &running, Place scratch,
              ResidentWeights &residentWeights, PeakMemory &sessionPeak, const Cancellation &sessionCancellation,
              Trace &sessionTrace, Exchange *sessionExchange, HandedWeights *handedWeights,
              const MemoryCheck &memoryCheck);

  uint32_t count() const { return static_cast<uint32_t>(programs.size()); }
  uint32_t head() const { return count() - 1; }
  bool has(uint32_t block, std::string_view program) const { return of(block, program).program != format::noProgram; }

  // Whether the backward comes to this block, here or elsewhere.
  bool hasBackward(uint32_t block) const;

  // What runs below is enqueued. When this returns it is done, and the host may read and write what it touched.
  Status wait();

  // Of what runs next: to the head, or there and back.
  void beginWalk(bool isForwardOnly) {
    if (handed)
      handed->beginWalk(isForwardOnly);
  }
  // Of a block before the head.
  Status forward(uint32_t block, LiveShape live);
  // Its output once more, of what was kept.
  Status recompute(uint32_t block, LiveShape live);
  Status backward(uint32_t block, LiveShape live);
  // One of the programs that multiply a block's gradients with thin matrices; done when it returns. The block's input
  // and cotangents stay.
  Status thinProduct(uint32_t block, std::string_view program, LiveShape live);
  // The head's objective or log-probabilities, of so many rows from the first on.
  Status runHead(std::string_view program, uint64_t rows, float logitScale);
  // Of generation: a block before the head, and the head for one row of each batch item, from a row of its input on.
  Status decode(uint32_t block, LiveShape live, uint32_t position);
  // What that is of a split model, for who does other things in between: what comes before the first block that the
  // server has, behind the last one, and each program.
  Status enterForward(uint32_t block, LiveShape live);
  Status leaveForward(uint32_t block, LiveShape live);
  Status runForward(const format::ProgramTraits &program, uint32_t block, LiveShape live, uint32_t position,
                    bool generates);
  Status decodeLogits(uint64_t row, uint32_t batch, float *out);
  // The head's logits, at most logitRows() of them, from a row of its input on.
  Status logits(uint64_t row, uint32_t rows, float *out);
  uint64_t logitRows() const;

private:
  // Where both halves of a split model meet: before and after one's first and last block, and its programs.
  Status ask(uint32_t block, LiveShape live, uint32_t position, bool generates);
  Status enterBackward(uint32_t block, LiveShape live);
  Status leaveBackward(uint32_t block, LiveShape live);
  Status runPassing(const format::ProgramTraits &passing, std::string_view name, uint32_t block, LiveShape live,
                    uint32_t position);
  Status runForwards(uint32_t block, LiveShape live, uint32_t position, bool generates);
  Status runBackwards(uint32_t block, LiveShape live);
  uint64_t topRows(LiveShape live) const;

  // Before a program of a block runs, and one of `next` in the same direction: their weights.
  Status enter(const Visit &visit, uint32_t next);

  using Programs = std::array<BoundProgram, std::size(format::knownPrograms)>; // of one block, in their order
  static size_t indexOf(std::string_view program);
  const BoundProgram &of(uint32_t block, std::string_view program) const { return programs[block][indexOf(program)]; }
  Status run(const BoundProgram &program, LiveShape live, uint32_t position = 0);
  Status enqueue(const BoundProgram &program, LiveShape live, uint32_t position);
  // The head, from a row of its input on, into the memory of the caller's; done when it returns.
  Status runInto(float *out, uint64_t row, LiveShape live, BoundProgram &program);

  const Bundle *opened = nullptr;
  const format::Bundle *bundle = nullptr;
  const Buffers *buffers = nullptr;
  const Checkpoints *checkpoints = nullptr;
  const Trainables *trainables = nullptr;
  ResidentWeights *weights = nullptr;
  HandedWeights *handed = nullptr; // null: the bundle's file has them
  Backend *backend = nullptr;
  Place arena;
  MemoryCheck check;
  std::vector<Programs> programs;
  // Of each, what it reads of weights that are handed in.
  std::vector<std::array<std::vector<BoundWeight>, std::size(format::knownPrograms)>> handedInputs;
  const Cancellation *cancellation = nullptr;
  PeakMemory *peak = nullptr; // null: not sampled after each kernel call
  Trace *trace = nullptr;
  Exchange *exchange = nullptr; // null: the whole model is here
  const Remote *remote = nullptr;
};

} // namespace mebp
