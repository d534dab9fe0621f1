// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/session_options.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "format/optimizers.h"
#include "runtime/core/decimal.h"
#include "runtime/optim/optimizer.h"

namespace mebp {

// Of a NaN, the sign means nothing.
static double printable(double number) { return std::isnan(number) ? std::fabs(number) : number; }

// Written so that a NaN fails, too.
static bool isFiniteFromZero(double number) { return number >= 0 && std::isfinite(number); }

Status checkLearningRate(double rate) {
  if (isFiniteFromZero(rate))
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the learning rate %g is not a finite number of at least 0", printable(rate));
}

std::string listTaking(const OptimizerOption &option, const char *beforeLast) {
  auto takes = [&](const format::OptimizerTraits &traits) { return findOptimizer(traits.number)->takes(option); };
  return format::listed(format::namesOf(format::optimizers, takes), beforeLast);
}

static bool isWithin(const OptimizerOption &option, double number) {
  return isFiniteFromZero(number) && number < option.below && (number > 0 || option.mayBeZero) &&
         (!option.isWhole || number == std::floor(number));
}

// "a finite number above 0"
static std::string rangeOf(const OptimizerOption &option) {
  const bool isLimited = std::isfinite(option.below);
  std::string range = option.isWhole ? "a whole number" : isLimited ? "a number" : "a finite number";
  range += option.mayBeZero ? " of at least 0" : " above 0";
  return isLimited ? range + textOf(" and below %g", option.below) : range;
}

static Status checkOption(const Optimizer &optimizer, const OptimizerOption &option, double given) {
  if (given == option.notGiven)
    return Status();
  if (!optimizer.takes(option))
    return failure(MEBP_INVALID_ARGUMENT, "%s has no option '%s'; leave it out, or choose %s", optimizer.name,
                   option.called, listTaking(option).c_str());
  if (isWithin(option, given))
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "%s %g is not %s", option.name, printable(given), rangeOf(option).c_str());
}

Status checkOptions(const mebp_session_options &options) {
  const Optimizer *optimizer = findOptimizer(options.optimizer);
  if (!optimizer)
    return failure(MEBP_UNSUPPORTED, "optimizer number %d is not in this build; choose %s",
                   static_cast<int>(options.optimizer), format::listed(format::namesOf(format::optimizers)).c_str());
  if (Status status = checkLearningRate(options.learning_rate); !status.ok())
    return status;
  if (!isFiniteFromZero(options.weight_decay))
    return failure(MEBP_INVALID_ARGUMENT, "the weight decay %g is not a finite number of at least 0",
                   printable(options.weight_decay));
  for (const OptimizerOption &option : optimizerOptions)
    if (Status status = checkOption(*optimizer, option, options.*option.given); !status.ok())
      return status;
  if (options.clip > 0 && format::findOptimizer(options.optimizer)->forwardOnly)
    return failure(MEBP_INVALID_ARGUMENT, "%s has no gradient that could be clipped; leave out clip", optimizer->name);
  return Status();
}

OptimizerOptions optionsOf(const mebp_session_options &options) {
  OptimizerOptions all;
  all.learningRate = options.learning_rate;
  all.weightDecay = options.weight_decay;
  for (const OptionDefault &taken : findOptimizer(options.optimizer)->options)
    for (const OptimizerOption &option : optimizerOptions)
      if (taken.option == option.value) {
        const double given = options.*option.given;
        all.*option.value = given == option.notGiven ? taken.value : given;
      }
  return all;
}

std::vector<const OptimizerOption *> namedOptions() {
  std::vector<const OptimizerOption *> named;
  for (const OptimizerOption &option : optimizerOptions)
    if (named.empty() || !option.isPairedWith(*named.back()))
      named.push_back(&option);
  return named;
}

// Rows that are given together.
using Rows = std::vector<const OptimizerOption *>;

static Rows rowsCalled(const std::string &name) {
  const std::string called = dashed(name);
  Rows rows;
  for (const OptimizerOption &option : optimizerOptions)
    if (called == option.called || name == option.name)
      rows.push_back(&option);
  return rows;
}

static std::vector<std::string> choicesOf(const OptimizerOption &option) {
  return {std::begin(option.choices), std::find(std::begin(option.choices), std::end(option.choices), nullptr)};
}

static bool read(const OptimizerOption &option, const std::string &text, double &number) {
  const std::vector<std::string> choices = choicesOf(option);
  if (choices.empty())
    return readDecimal(text, number) && isWithin(option, number);
  const auto found = std::find(choices.begin(), choices.end(), text);
  number = static_cast<double>(found - choices.begin());
  return found != choices.end();
}

// One for each row, with commas between them; empty where the text is anything else.
static std::vector<double> readAll(const Rows &rows, const std::string &text) {
  std::vector<double> numbers;
  size_t begin = 0;
  for (const OptimizerOption *row : rows) {
    const size_t end = row == rows.back() ? text.size() : std::min(text.find(',', begin), text.size());
    if (begin > end || !read(*row, text.substr(begin, end - begin), numbers.emplace_back()))
      return {};
    begin = end + 1;
  }
  return numbers;
}

static Status refuse(const Rows &rows, const std::string &name, const std::string &text) {
  if (rows.front()->choices[0])
    return failure(MEBP_INVALID_ARGUMENT, "%s is '%s'; choose %s", name.c_str(), text.c_str(),
                   format::listed(choicesOf(*rows.front())).c_str());
  const std::string several = rows.size() > 1 ? textOf("%zu with a comma between, each ", rows.size()) : "";
  return failure(MEBP_INVALID_ARGUMENT, "%s is %s; give %s%s", name.c_str(), text.c_str(), several.c_str(),
                 rangeOf(*rows.front()).c_str());
}

Status refuseOlder(const std::string &name, const char *field) {
  return failure(MEBP_UNSUPPORTED,
                 "%s: the program was built with an older mebp.h, which has no field '%s'; build it again with "
                 "this one's",
                 name.c_str(), field);
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

Status setOption(mebp_session_options &options, const std::string &name, const std::string &text) {
  const Rows rows = rowsCalled(name);
  if (rows.empty()) {
    std::vector<std::string> names;
    for (const OptimizerOption *option : namedOptions())
      names.emplace_back(option->called);
    return failure(MEBP_UNSUPPORTED, "no optimizer has an option '%s'; choose %s", name.c_str(),
                   format::listed(names).c_str());
  }
  const std::vector<double> numbers = readAll(rows, text);
  if (numbers.empty())
    return refuse(rows, name, text);
  for (const OptimizerOption *row : rows)
    if (!hasField(options, row->given))
      return refuseOlder(name, row->name);
  for (size_t i = 0; i < rows.size(); ++i)
    options.*rows[i]->given = numbers[i];
  return Status();
}

} // namespace mebp
