// SPDX-License-Identifier: Apache-2.0
//
// The head, and what an objective makes of what it gives.
//
// Terms: logp is the log-probability of a label, and its coefficient is dL/dlogp.
// 1. The head runs on the rows that predict a label: they are moved to the front of its input, and the cotangents that
//    it gives are moved back to their places, among zeros. So rows without a label cost nothing.
// 2. Of the mean loss every coefficient is -1 / labels, known before; the sweep of the vocabulary multiplies by it.
// 3. Of any other objective they are known after: the sweep gives the derivatives of logp, whose rows are multiplied
//    then. Where the head itself is trained, its gradients are sums over rows, so the log-probabilities come first; so
//    do they where it has derivatives of its entropy or of values, for one row cannot be multiplied by two numbers.
//    So it is with a sequence whose coefficients its user makes (sequence.cpp). What an objective does not depend on
//    has coefficients of zero.
#include <algorithm>
#include <cstring>

#include "format/lookup.h"
#include "runtime/train/finite.h"
#include "runtime/train/lane.h"

namespace mebp {

static double dot(const float *a, const float *b, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i)
    sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// From the rows that predict them, one after the other, to the places of the labels themselves, `distance` behind; and
// back.
static void spread(float *values, Rows rows, uint64_t total, uint32_t distance) {
  scatterRows(values, sizeof(float), rows, total);
  std::memmove(values + distance, values, (total - distance) * sizeof(float));
  std::fill_n(values, distance, 0.0f);
}
static void collect(float *values, Rows rows, uint64_t total, uint32_t distance) {
  std::memmove(values, values + distance, (total - distance) * sizeof(float));
  gatherRows(values, sizeof(float), rows);
}

Status Lane::runHead(std::string_view program) {
  if (!blocks.has(blocks.head(), program))
    return failure(MEBP_UNSUPPORTED, "the bundle has no program for log-probabilities alone; compile it again");
  Status status = blocks.runHead(program, labels, live.logitScale);
  return status.ok() ? blocks.wait() : status;
}

Status Lane::runLogProbabilities() {
  if (Status status = runForward(headRows()); !status.ok())
    return status;
  if (Status status = blocks.wait(); !status.ok())
    return status;
  checkpoints.gatherHeadInput(headRows());
  return runHead(format::logProbabilitiesProgram);
}

Status Lane::runLoss(const Objective &objective, double &out) {
  out = 0;
  if (labels == 0)
    return Status(); // adds nothing
  if (Status status = runLogProbabilities(); !status.ok())
    return status;
  if (objective.function) {
    if (Status status = askObjective(objective, out); !status.ok())
      return status;
  } else {
    std::fill_n(batch.coefficients(), labels, objective.coefficient);
    out = dot(batch.coefficients(), batch.logProbabilities(), labels);
  }
  return addRouterLoss(objective.share, out);
}

// Leaves the coefficients beside the labels.
Status Lane::askObjective(const Objective &objective, double &out) {
  const uint64_t total = live.rows();
  spread(batch.logProbabilities(), headRows(), total, labelDistance(*model));
  std::fill_n(batch.coefficients(), total, 0.0f);
  out = objective.function(objective.user, batch.logProbabilities(), live.batch, live.sequence, batch.coefficients());
  collect(batch.coefficients(), headRows(), total, labelDistance(*model));
  for (uint64_t i = 0; i < labels; ++i)
    if (Status status = checkFinite("objective's coefficient", batch.coefficients()[i]); !status.ok())
      return status;
  return checkFinite("loss", out);
}

bool Lane::needsCoefficientsFirst() const {
  return gradients.has(blocks.head()) || batch.entropyCoefficients() || batch.valueCoefficients();
}

void Lane::fillCoefficients(float ofLogProbabilities) const {
  std::fill_n(batch.coefficients(), labels, ofLogProbabilities);
  for (float *others : {batch.entropyCoefficients(), batch.valueCoefficients()})
    if (others)
      std::fill_n(others, labels, 0.0f);
}

Status Lane::sweepHead() {
  if (Status status = blocks.wait(); !status.ok())
    return status;
  checkpoints.gatherHeadInput(headRows());
  fillCoefficients(1);
  return runHead(needsCoefficientsFirst() ? format::logProbabilitiesProgram : format::objectiveProgram);
}

Status Lane::finishHead() {
  if (!needsCoefficientsFirst())
    checkpoints.scaleHeadCotangents(batch.coefficients(), labels);
  else if (Status status = runHead(format::objectiveProgram); !status.ok())
    return status;
  checkpoints.scatterHeadCotangents(headRows(), live.rows());
  return Status();
}

// The cotangents of the head's input are there afterwards, and what routers' gradients follow from.
Status Lane::runObjective(const Objective &objective, double &out) {
  Status status = runObjectiveOfHead(objective, out);
  return status.ok() ? addRouterLoss(objective.share, out) : status;
}

Status Lane::runObjectiveOfHead(const Objective &objective, double &out) {
  if (objective.function) {
    if (Status status = sweepHead(); !status.ok())
      return status;
    Status status = askObjective(objective, out);
    return status.ok() ? finishHead() : status;
  }
  if (Status status = blocks.wait(); !status.ok())
    return status;
  checkpoints.gatherHeadInput(headRows());
  fillCoefficients(objective.coefficient);
  if (Status status = runHead(format::objectiveProgram); !status.ok())
    return status;
  out = dot(batch.coefficients(), batch.logProbabilities(), labels);
  checkpoints.scatterHeadCotangents(headRows(), live.rows());
  return Status();
}

void Lane::giveScores(const mebp_scores &out) const {
  for (auto [to, from] : {std::pair(out.log_probabilities, batch.logProbabilities()),
                          {out.entropy, batch.entropy()},
                          {out.values, batch.values()}}) {
    if (!to)
      continue;
    std::fill_n(to, live.rows(), 0.0f);
    for (uint64_t i = 0; i < labels; ++i)
      to[static_cast<uint32_t>(batch.rows()[i]) + labelDistance(*model)] = from[i];
  }
}

Status Lane::takeCoefficients(const mebp_coefficients &given) {
  fillCoefficients(0);
  for (auto [to, from] : {std::pair(batch.coefficients(), given.log_probabilities),
                          {batch.entropyCoefficients(), given.entropy},
                          {batch.valueCoefficients(), given.values}}) {
    if (!from)
      continue;
    for (uint64_t i = 0; i < labels; ++i) {
      to[i] = from[static_cast<uint32_t>(batch.rows()[i]) + labelDistance(*model)];
      if (Status status = checkFinite("objective's coefficient", to[i]); !status.ok())
        return status;
    }
  }
  return Status();
}

} // namespace mebp
