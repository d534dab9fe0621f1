// SPDX-License-Identifier: Apache-2.0
//
// What a session can be told, beside what is its optimizer's own (runtime/optim/options.h): the table by which
// programs, commands and packages take these options as text, and say what each is. Fields of mebp.h that are memory or
// functions are not among them.
#pragma once

#include <string>
#include <variant>

#include "format/options.h"
#include "mebp/mebp.h"
#include "runtime/core/status.h"

namespace mebp {

struct SessionOption {
  using Options = mebp_session_options;
  // Its type says how a value is written: true or false, a whole number, a size such as 64MiB, a number, a path or a
  // name. A text stays the caller's.
  using Field = std::variant<bool Options::*, uint32_t Options::*, uint64_t Options::*, double Options::*,
                             const char *Options::*, mebp_optimizer Options::*, mebp_backend Options::*>;

  const char *name;   // of its field
  const char *called; // on a command line and, with _ for -, in packages
  Field field;
  const char *help;
  // What holds where it is not given; null: the help says it, or nothing does.
  const char *standard = nullptr;
  uint32_t most = UINT32_MAX; // of a whole number
  bool isOfPackages = true;   // else of who calls C alone
  const char *runs = nullptr; // what mebp-run calls it; null: it has none
  const char *written = "";   // what a command line calls its value

  mebp_option_kind kind() const;
};

// One whose text other commands have, too.
constexpr SessionOption sharedOption(const char *name, const char *called, SessionOption::Field field,
                                     uint32_t most = UINT32_MAX) {
  const format::OptionText &text = format::optionText(called);
  SessionOption option{name, called, field, text.help};
  option.most = most;
  option.standard = *text.standard ? text.standard : nullptr;
  option.written = text.value;
  option.runs = called;
  return option;
}

inline constexpr SessionOption sessionOptions[] = {
    {"optimizer", "optimizer", &mebp_session_options::optimizer,
     "which optimizer: adamw, sgd, lion, adamw8bit, galore, qgalore or mezo, which takes losses instead of gradients",
     "as compiled", 0, true, "optimizer", "NAME"},
    sharedOption("backend", "device", &mebp_session_options::backend),
    sharedOption("learning_rate", "lr", &mebp_session_options::learning_rate),
    sharedOption("weight_decay", "weight-decay", &mebp_session_options::weight_decay),
    {"clip", "clip", &mebp_session_options::clip,
     "the most that the gradient's L2 norm over all trainables may be, as torch's clip_grad_norm_ has it (default: "
     "any)"},
    sharedOption("threads", "threads", &mebp_session_options::threads, 1024),
    {"reference_kernels", "reference-kernels", &mebp_session_options::reference_kernels,
     "the naive kernels that the fast ones are checked against, whatever MEBP_KERNELS says"},
    {"forward_only", "forward-only", &mebp_session_options::forward_only,
     "losses, logits and generation alone: no room for gradients, checkpoints or an optimizer's state"},
    {"return_gradients", "return-gradients", &mebp_session_options::return_gradients,
     "room for gradients that are read; without it, accumulate and clip, each gradient is applied as soon as it is "
     "there, and a step needs as little as was planned"},
    {"accumulate", "accumulate", &mebp_session_options::accumulate,
     "room for steps over several micro-batches, or over sequences"},
    sharedOption("resident_limit", "resident-limit", &mebp_session_options::resident_limit),
    {"spill_folder", "spill-folder", &mebp_session_options::spill_folder,
     "keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills)", nullptr, 0, true,
     "spill", "TEXT"},
    sharedOption("trace_file", "profile", &mebp_session_options::trace_file),
    {"state_in_file", "state-in-file", &mebp_session_options::state_in_file,
     "keep what is trained and the optimizer's state there, too; every step writes all of it", nullptr, 0, true,
     "spill-optimizer"},
    {"sample_memory", "sample-memory", &mebp_session_options::sample_memory,
     "measure the peak after every kernel call, which is slow", nullptr, 0, false, "sample-memory"},
    {"generate_only", "generate-only", &mebp_session_options::generate_only,
     "generation alone, by a bundle that was compiled for it: not even room for a loss"},
    {"clip_recompute", "clip-recompute", &mebp_session_options::clip_recompute,
     "compute gradients twice instead of keeping them for clip; the same bits without their room"},
    {"retry_ms", "retry-ms", &mebp_session_options::retry_ms,
     "milliseconds for which a server that is gone is tried again", "60000", UINT32_MAX, false},
    {"pending_gradients", "pending-gradients", &mebp_session_options::pending_gradients,
     "with accumulate, room for a gradient whose factor comes later"},
    {"in_flight", "in-flight", &mebp_session_options::in_flight,
     "of a device's half of a split model: micro-batches under way at once", "1", 64, false},
    {"value_adapter", "value-adapter", &mebp_session_options::value_adapter,
     "with accumulate, a value head has an adapter and an optimizer state of its own"},
    {"gradients_out", "gradients-out", &mebp_session_options::gradients_out,
     "blocks whose gradients the caller may hold at once", "0", 1024, false},
    {"tree_batches", "tree-batches", &mebp_session_options::tree_batches,
     "with accumulate, the most micro-batches of a step whose gradients are summed in a binary tree over their "
     "numbers, "
     "as parts of a step that several sessions share have to be; 0: one after the other",
     "0", 1 << 20, false},
    {"blocks_ahead", "blocks-ahead", &mebp_session_options::blocks_ahead,
     "blocks before its turn at which a block's weights are asked for", "0", 1024, false},
};

// Of a whole number that has a row.
constexpr uint32_t mostOf(uint32_t mebp_session_options::*field) {
  for (const SessionOption &option : sessionOptions)
    if (option.field == SessionOption::Field(field))
      return option.most;
  return 0;
}

// Sets what is called `name`, or has it as its field, to what a user wrote: one of these or of the optimizer's own. The
// struct may end before the field.
Status setSessionOption(mebp_session_options &options, const std::string &name, const char *text);

} // namespace mebp
