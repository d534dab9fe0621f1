// SPDX-License-Identifier: Apache-2.0
//
// What a session's options say of its optimizer.
#pragma once

#include <string>
#include <vector>

#include "mebp/mebp.h"
#include "runtime/core/status.h"
#include "runtime/optim/options.h"

namespace mebp {

// Of a session's options, and of a rate that is set later.
Status checkOptions(const mebp_session_options &options);
Status checkLearningRate(double rate);
// Of options that checkOptions has passed, with the optimizer's own values for those that were not given.
OptimizerOptions optionsOf(const mebp_session_options &options);
// Sets what is called `name`, or has it as its field, to what a user wrote; the struct may end before the field.
Status setOption(mebp_session_options &options, const std::string &name, const std::string &text);
// Whether the caller's struct, which may be of an older version, has the field.
template <typename Value> bool hasField(const mebp_session_options &options, Value mebp_session_options::*field) {
  const auto *begin = reinterpret_cast<const unsigned char *>(&options);
  const auto *place = reinterpret_cast<const unsigned char *>(&(options.*field));
  return static_cast<size_t>(place - begin) + sizeof(Value) <= options.size;
}
Status refuseOlder(const std::string &name, const char *field); // which the struct does not have
// A name as command lines have it, with - for _.
std::string dashed(std::string name);
// The table's rows, of several that are called alike the first.
std::vector<const OptimizerOption *> namedOptions();
// The optimizers that take it: "a, b or c".
std::string listTaking(const OptimizerOption &option, const char *beforeLast = " or ");
// Of such a row: "of NAMES, what it is (default: what most of them have; NAME: its own)".
std::string helpOf(const OptimizerOption &option);

} // namespace mebp
