// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about a session's options, before there is a session.
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "mebp/mebp.h"
#include "runtime/core/edge.h"
#include "runtime/optim/session_options.h"
#include "runtime/train/option_table.h"

using namespace mebp;

static mebp_session_options defaultOptions() {
  mebp_session_options options = {};
  options.size = sizeof(options);
  options.optimizer = MEBP_ADAMW;
  options.learning_rate = 2e-4;
  for (const OptimizerOption &option : optimizerOptions)
    options.*option.given = option.notGiven;
  return options;
}

void mebp_session_options_init_sized(mebp_session_options *options, size_t size) {
  if (!options || size <= sizeof(size_t))
    return;
  const mebp_session_options own = defaultOptions();
  std::memset(static_cast<void *>(options), 0, size);
  options->size = size;
  writeSized(own, options);
}

mebp_code mebp_session_options_set(mebp_session_options *options, const char *name, const char *value,
                                   mebp_error *error) {
  return guarded(error, {{"options", options}, {"name", name}, {"value", value}}, [&] {
    Status status = checkSize("mebp_session_options", *options);
    return status.ok() ? setSessionOption(*options, name, value) : status;
  });
}

uint32_t mebp_session_option_count(void) { return static_cast<uint32_t>(std::size(sessionOptions)); }

mebp_code mebp_session_option_get_info(uint32_t index, mebp_session_option_info *out, mebp_error *error) {
  return guarded(error, {{"out", out}}, [&] {
    if (Status status = checkSize("mebp_session_option_info", *out); !status.ok())
      return status;
    if (index >= std::size(sessionOptions))
      return failure(MEBP_INVALID_ARGUMENT, "option %u does not exist; there are %zu", index,
                     std::size(sessionOptions));
    const SessionOption &option = sessionOptions[index];
    mebp_session_option_info info;
    mebp_session_option_info_init(&info);
    info.name = option.name;
    info.called = option.called;
    info.kind = option.kind();
    info.help = option.help;
    info.standard = option.standard;
    info.written = option.written;
    info.run_name = option.runs;
    info.is_of_packages = option.isOfPackages;
    writeSized(info, out);
    return Status();
  });
}

uint32_t mebp_optimizer_option_count(void) {
  return unlessOutOfMemory([] { return static_cast<uint32_t>(namedOptions().size()); }, [] { return 0u; });
}

// Of each; they live as long as the library.
static const std::vector<std::string> &helps() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> lines;
    for (const OptimizerOption *option : namedOptions())
      lines.push_back(helpOf(*option));
    return lines;
  }();
  return all;
}

mebp_code mebp_optimizer_option_get_info(uint32_t index, mebp_optimizer_option_info *out, mebp_error *error) {
  return guarded(error, {{"out", out}}, [&] {
    if (Status status = checkSize("mebp_optimizer_option_info", *out); !status.ok())
      return status;
    const std::vector<const OptimizerOption *> named = namedOptions();
    if (index >= named.size())
      return failure(MEBP_INVALID_ARGUMENT, "option %u does not exist; there are %zu", index, named.size());
    mebp_optimizer_option_info info;
    mebp_optimizer_option_info_init(&info);
    info.name = named[index]->called;
    for (const OptimizerOption &option : optimizerOptions)
      info.numbers += option.isPairedWith(*named[index]);
    info.is_whole = named[index]->isWhole;
    info.choices = named[index]->choices[0] ? named[index]->choices : nullptr;
    info.written = named[index]->written;
    info.help = helps()[index].c_str();
    writeSized(info, out);
    return Status();
  });
}
