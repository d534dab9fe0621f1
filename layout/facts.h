// SPDX-License-Identifier: Apache-2.0
//
// What a layout depends on, read off a bundle once. Laying a session out is then a matter of sums, which a compiler
// that looks for a schedule does some ten thousand times, over blocks of several bundles.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "format/lookup.h"
#include "layout/flows.h"

namespace mebp::layout {

// What a block's programs give each other under one name: a REMOTE or KEPT port. Or other blocks: a SHARED one.
struct Passed {
  format::Port::Kind kind = format::Port::REMOTE;
  std::string name;
  uint64_t rowBytes = 0, bytes = 0;
  bool isReadAgain = false; // by a program that gives gradients
  bool isForward = false;   // a program that gives none has it, too
};

// What a block keeps from step to step of generation under one name.
struct KeptState {
  std::string name;
  uint64_t capacity = 0; // positions of each batch item
  uint64_t rowBytes = 0, bytes = 0;
  uint64_t window = 0; // how far back it is read; 0: it keeps every position
  // What a recurrence has made of all positions so far: it has nothing of any one of them.
  bool isCarried = false;
};

// Of a block's programs: those that generate, or the others.
struct ProgramFacts {
  Border behind;            // what flows to the next block; not of the head
  bool flowsInPlace = true; // each leaves what it gives where it finds what it takes
  std::vector<Passed> passed;
  uint64_t arena = 0, forwardArena = 0; // the largest scratch; of those that give no gradients
};

struct BlockFacts {
  bool runsHere = true; // half of a model has only some
  ProgramFacts training, generating;
  std::vector<uint32_t> gradients; // the trainables that its programs give these of, in their order
  std::vector<uint32_t> projected; // those whose subspaces its programs help to find
  std::vector<KeptState> states;   // in the order of its program's ports
  uint64_t generatedRows = 0;      // of tokens that a step of generation takes

  const ProgramFacts &programs(bool generates) const { return generates ? generating : training; }
};

// A trained tensor's own bytes: its numbers or codes, then the groups' scales and minima, each at an aligned place.
struct WeightParts {
  explicit WeightParts(const format::Trainable &trainable) {
    const format::Storage storage = storageOf(trainable);
    data = trainable.rows() * format::rowBytesOf(storage, trainable.columns());
    groups = trainable.rows() * format::groupsOf(storage, trainable.columns()) * sizeof(uint16_t);
  }
  uint64_t scalesAt() const { return format::alignUp(data); }
  uint64_t minimaAt() const { return scalesAt() + format::alignUp(groups); }
  uint64_t bytes() const { return groups ? minimaAt() + groups : data; }

  uint64_t data, groups;
};

struct TrainableFacts {
  format::TrainedShape shape;
  uint32_t shapeNumber = 0; // among those of the model, which are few
  uint64_t bytes = 0, gradientBytes = 0;
  bool isInt8 = false;
};

// What no schedule changes.
struct ModelFacts {
  std::vector<TrainableFacts> trainables;
  std::vector<format::TrainedShape> shapes; // of them, each once
  // Bytes of each; 0: it has no place in the session's memory.
  std::array<uint64_t, std::size(format::stepPorts)> stepPorts = {};
  uint32_t lowestTrained = 0; // the first block that a backward comes to
  bool isSplit = false;
  bool isGathered = false; // the head's input comes from elsewhere, in the rows alone that it runs on
  uint64_t wire = 0;       // of frames to the other half of a split model, until it has them
  uint64_t weights = 0;    // of the mapped file
  uint64_t history = 0;    // of the tokens of a generation whose server may forget them
};

struct Facts {
  std::shared_ptr<const ModelFacts> model;
  std::vector<std::shared_ptr<const BlockFacts>> blocks; // embedding, layers, head

  uint32_t layers() const { return static_cast<uint32_t>(blocks.size() - 2); }
  // Those whose input no backward reads: before the first one that it comes to.
  uint32_t layersBelow() const { return model->lowestTrained > 0 ? model->lowestTrained - 1 : 0; }
};

Facts factsOf(const format::Bundle &bundle);

// Behind each block but the head.
std::vector<Border> bordersOf(const Facts &facts, bool generates);

// The largest message between the halves of a split model: what programs of one block give each other at once, or what
// flows. A command tells of every row.
uint64_t largestMessage(const format::Bundle &bundle);
// What frames to the other half take until it has them; 0 of a whole model.
uint64_t wireBytes(const format::Bundle &bundle);

} // namespace mebp::layout
