// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/option_table.h"

#include <cmath>
#include <cstring>
#include <iterator>

#include "format/byte_size.h"
#include "format/optimizers.h"
#include "runtime/backends/backends.h"
#include "runtime/core/decimal.h"
#include "runtime/optim/session_options.h"

namespace mebp {

namespace {

Status refuse(const std::string &name, const char *text, const std::string &instead) {
  return failure(MEBP_INVALID_ARGUMENT, "%s is %s; give %s", name.c_str(), text, instead.c_str());
}

// What each type of field is, and takes.
struct Reader {
  mebp_session_options &options;
  const SessionOption &option;
  const std::string &name; // as its caller has it
  const char *text;

  Status operator()(bool mebp_session_options::*field) const {
    const bool isTrue = std::strcmp(text, "true") == 0;
    if (!isTrue && std::strcmp(text, "false") != 0)
      return refuse(name, text, "true or false");
    options.*field = isTrue;
    return Status();
  }
  Status operator()(uint32_t mebp_session_options::*field) const {
    double number = 0;
    if (!readDecimal(text, number) || !(number >= 0 && number <= option.most) ||
        number != static_cast<double>(static_cast<uint32_t>(number)))
      return refuse(name, text, textOf("a whole number up to %u", option.most));
    options.*field = static_cast<uint32_t>(number);
    return Status();
  }
  Status operator()(uint64_t mebp_session_options::*field) const {
    uint64_t bytes = 0;
    if (const std::string wrong = format::parseByteSize(text, bytes); !wrong.empty())
      return failure(MEBP_INVALID_ARGUMENT, "%s %s %s", name.c_str(), text, wrong.c_str());
    options.*field = bytes;
    return Status();
  }
  // Whether it is in range, checkOptions and checkSessionOptions say, which C's own numbers come to.
  Status operator()(double mebp_session_options::*field) const {
    double number = 0;
    if (!readDecimal(text, number) || !(number >= 0 && std::isfinite(number)))
      return refuse(name, text, "a finite number of at least 0");
    options.*field = number;
    return Status();
  }
  Status operator()(const char *mebp_session_options::*field) const {
    options.*field = *text ? text : nullptr;
    return Status();
  }
  Status operator()(mebp_optimizer mebp_session_options::*field) const {
    const format::OptimizerTraits *found = format::findOptimizer(std::string_view(text));
    if (!found)
      return failure(MEBP_UNSUPPORTED, "there is no optimizer '%s'; choose %s", text,
                     format::listed(format::namesOf(format::optimizers)).c_str());
    options.*field = static_cast<mebp_optimizer>(found->number);
    return Status();
  }
  Status operator()(mebp_backend mebp_session_options::*field) const { return findDevice(text, options.*field); }
};

} // namespace

mebp_option_kind SessionOption::kind() const {
  constexpr mebp_option_kind kinds[] = {MEBP_OPTION_FLAG, MEBP_OPTION_COUNT,  MEBP_OPTION_SIZE,  MEBP_OPTION_NUMBER,
                                        MEBP_OPTION_PATH, MEBP_OPTION_CHOICE, MEBP_OPTION_CHOICE};
  static_assert(std::size(kinds) == std::variant_size_v<Field>, "one for each type, in their order");
  return kinds[field.index()];
}

Status setSessionOption(mebp_session_options &options, const std::string &name, const char *text) {
  for (const SessionOption &option : sessionOptions) {
    if (name != option.name && dashed(name) != option.called)
      continue;
    if (!std::visit([&](auto field) { return hasField(options, field); }, option.field))
      return refuseOlder(name, option.name);
    return std::visit(Reader{options, option, name, text}, option.field);
  }
  return setOption(options, name, text);
}

} // namespace mebp
