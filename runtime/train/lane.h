// SPDX-License-Identifier: Apache-2.0
//
// The way of one micro-batch through the model: what it needs while it is under way, and all that is done with it until
// its gradients are added to those of the step. A session has one lane; with the device's half of a split model it may
// have several (flight.h).
#pragma once

#include <functional>
#include <memory>

#include "layout/layout.h"
#include "runtime/train/blocks.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/exchange.h"
#include "runtime/train/flight.h"
#include "runtime/train/gradients.h"
#include "runtime/train/remote.h"
#include "runtime/train/tokens.h"

namespace mebp {

// What is minimised: the mean of -log p over the labels or, with a function, what that one makes of the
// log-probabilities.
struct Objective {
  mebp_objective function = nullptr;
  void *user = nullptr;
  float coefficient = 0; // of each label, where it is the mean loss
  double share = 1;      // of a micro-batch, in what is a mean over these
};

class Lane {
public:
  // Where all of it lies; an exchange and blocks are made by the session, which other things go into as well.
  void create(const Bundle &opened, std::vector<layout::Border> borders, const layout::Layout &layout, uint32_t number,
              unsigned char *sessionMemory, bool isFresh, SpillFile &spill, Flight &sharedFlight,
              const MemoryCheck &check);

  // By value: the caller's own may change meanwhile.
  Status take(Tokens tokens);
  // Which blocks run in a step, one after another.
  std::vector<Visit> visits() const;
  Status runForward(Rows wanted); // of whose results alone the head takes any
  Status runForwardForBackward();
  // What is called at each block. A std::ref of a lambda, so that it needs no memory of its own.
  using AtBlock = std::function<Status(uint32_t block)>;
  // Calls atBlock(block) before the backward of each, the head's apart; that of `last` does not run. Without a sink,
  // gradients stay where they are.
  static constexpr uint32_t noBlock = UINT32_MAX;
  Status runBackward(GradientSink *sink, const AtBlock &atBlock, uint32_t last = noBlock);

  // Those of the head, in objective.cpp.
  Rows headRows() const { return {batch.rows(), labels}; }
  Status runLogProbabilities();
  Status runLoss(const Objective &objective, double &out);
  Status runObjective(const Objective &objective, double &out);
  // The same in two: before coefficients are known, and then.
  Status sweepHead();
  Status finishHead();
  // From and to the labels' places. What the head lacks has been refused.
  void giveScores(const mebp_scores &out) const;
  Status takeCoefficients(const mebp_coefficients &given);

  // The server's: what one command asks for, in serve.cpp.
  Status serveForward(const Command &command);
  Status serveBackward(const Command &command);

  BatchMemory batch;
  LiveShape live;
  uint64_t labels = 0; // of what is in it
  uint32_t place = 0;  // of it, among those that add gradients
  Checkpoints checkpoints;
  Gradients gradients;
  Remote remote;
  std::unique_ptr<Exchange> exchange; // null: the whole model is here, or a device has no server
  Blocks blocks;

private:
  Status deliver(uint32_t block, GradientSink &sink);
  Status runObjectiveOfHead(const Objective &objective, double &out);
  Status addRouterLoss(double share, double &loss); // in router_loss.cpp
  Status runHead(std::string_view program);
  bool needsCoefficientsFirst() const;
  void fillCoefficients(float ofLogProbabilities) const;
  Status askObjective(const Objective &objective, double &out);

  const format::Model *model = nullptr;
  std::vector<uint32_t> routed; // the blocks that say how their experts are used
  Flight *flight = nullptr;
};

} // namespace mebp
