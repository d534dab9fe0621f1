// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/programs.h"

namespace mebp {

using format::Input;
using format::Output;

const char *nameOf(ProgramUse use) {
  switch (use) {
  case ProgramUse::Forward:
    return "forward";
  case ProgramUse::Backward:
    return "backward";
  case ProgramUse::Objective:
    return "objective";
  case ProgramUse::Loss:
    return "loss";
  case ProgramUse::Logits:
    return "logits";
  }
  return "";
}

ProgramUse gradientUse(const format::Block &block) {
  return block.kind() == format::Block::HEAD ? ProgramUse::Objective : ProgramUse::Backward;
}

int32_t programOf(const format::Block &block, ProgramUse use) {
  switch (use) {
  case ProgramUse::Forward:
    return block.forward();
  case ProgramUse::Backward:
    return block.backward();
  case ProgramUse::Objective:
    return block.objective();
  case ProgramUse::Loss:
    return block.loss();
  case ProgramUse::Logits:
    return block.logits();
  }
  return noProgram;
}

bool isPossible(ProgramUse use, const format::Block &block) {
  bool head = block.kind() == format::Block::HEAD;
  return head != (use == ProgramUse::Forward || use == ProgramUse::Backward);
}

bool isRequired(ProgramUse use, const format::Block &block) {
  bool head = block.kind() == format::Block::HEAD;
  return use == (head ? ProgramUse::Objective : ProgramUse::Forward);
}

bool takes(ProgramUse use, const format::Block &block, Input::Role role) {
  bool embed = block.kind() == format::Block::EMBED;
  switch (role) {
  case Input::PARAMETER:
    return true;
  case Input::ACTIVATION:
    return !embed;
  case Input::TOKEN_IDS:
    return use == ProgramUse::Forward || use == ProgramUse::Backward;
  case Input::COTANGENT:
    return use == ProgramUse::Backward;
  case Input::LABELS:
  case Input::OBJECTIVE_SCALE:
    return use == ProgramUse::Objective || use == ProgramUse::Loss;
  default:
    return false;
  }
}

bool gives(ProgramUse use, Output::Role role) {
  switch (role) {
  case Output::GRADIENT:
  case Output::COTANGENT:
    return givesGradients(use);
  default:
    return role == mainOutput(use);
  }
}

bool givesGradients(ProgramUse use) { return use == ProgramUse::Backward || use == ProgramUse::Objective; }

Output::Role mainOutput(ProgramUse use) {
  switch (use) {
  case ProgramUse::Forward:
    return Output::ACTIVATION;
  case ProgramUse::Backward:
    return Output::COTANGENT;
  case ProgramUse::Objective:
  case ProgramUse::Loss:
    return Output::LOSS;
  case ProgramUse::Logits:
    return Output::LOGITS;
  }
  return Output::ROLE_UNSPECIFIED;
}

} // namespace mebp
