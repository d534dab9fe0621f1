// SPDX-License-Identifier: Apache-2.0
//
// The options that more than one of mebp, mebpc and mebp-run have, with what each says of them in its --help: one
// wording, wherever an option stands. What one command alone has stands there.
#pragma once

#include <cstdlib>
#include <limits>
#include <string_view>

#include "format/tables.h"

namespace mebp::format {

struct OptionText {
  const char *name;
  const char *value; // what the command line calls it; empty for one that is on or off
  const char *help;
  const char *standard = ""; // what holds where it is not given; empty where the help says it, or nothing does
  // Of one that mebpc hands on as it stands to the field of this name (compiler/VisitOptions.h): where its
  // help lists it, and the least and the most of a number.
  const char *group = nullptr;
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool isChosen = false; // by the plan, within a budget

  constexpr OptionText in(const char *listed) const {
    OptionText row = *this;
    row.group = listed;
    return row;
  }
  constexpr OptionText from(double first, double last = std::numeric_limits<double>::infinity()) const {
    OptionText row = *this;
    row.least = first, row.most = last;
    return row;
  }
  constexpr OptionText chosenByPlans() const {
    OptionText row = *this;
    row.isChosen = true;
    return row;
  }
};

// Groups of mebpc's help.
inline constexpr char remoteGroup[] = "Remote adapters, and a model on two machines",
                      stepGroup[] = "The step that memory is planned for", drawnGroup[] = "Numbers that are drawn",
                      memoryGroup[] = "Memory and time";

inline constexpr OptionText options[] = {
    // Of a bundle: mebpc's, which `mebp train MODEL` passes on.
    {"precision", "TYPE", "type of the activations: bf16 or f32", "bf16"},
    {"weights", "TYPE",
     "type of the frozen weights (default: int4, or file, the model file's own, if that is quantised otherwise): f32, "
     "bf16, int8, int4, int4-sym or file"},
    {"embedding-weights", "TYPE",
     "type of the embedding and the head (default: int8 with quantised weights, else as --weights)"},
    {"weights-for", "NAMES",
     "type of some of them by the layer's name, in which * stands for anything: lm_head=int8,*.layers.0.*=bf16"},
    {"train", "WHAT", "train adapters (lora), or weights of the model themselves (full)", "lora"},
    {"train-targets", "NAMES",
     "with --train full, which weights: all-linear, or patterns of names in which * stands for anything, such as "
     "'*norm*' or '*'",
     "all-linear"},
    {"lora-rank", "N", "rank of the LoRA adapters", "8"},
    {"lora-alpha", "X", "scale adapters by alpha / rank", "16"},
    {"rslora", "", "scale adapters by alpha / sqrt(rank) instead, as PEFT does with use_rslora"},
    {"lora-dropout", "X", "in each step, zero this share of what an adapter reads, as PEFT does; from 0 to below 1",
     "0"},
    {"lora-targets", "NAMES",
     "layers to adapt: all-linear, which leaves the head out, or names such as q_proj,lm_head or, of experts, "
     "experts.down_proj",
     "all-linear"},
    {"lora-layers", "WHICH",
     "train these layers alone: the last ones, as in last:8, or the numbers of the first and the last, as in 20-23 "
     "(default: all)"},
    OptionText{"rank-down", "N", "numbers of a token that come from a layer", "32"}.in(remoteGroup),
    OptionText{"rank-up", "N", "numbers of a token that go back to a layer", "32"}.in(remoteGroup),
    OptionText{"share-a", "", "one A for layers that read one value: q, k and v"}.in(remoteGroup),
    {"split-layers", "N-N", "adapt these layers alone: the first and the last, as in 0-7 (default: all)"},
    OptionText{"galore-rank", "N", "dimensions that a matrix's gradient is projected to", "64"}.in(stepGroup),
    OptionText{"value-head", "", "train a linear layer that gives a value of each token, too, as PPO needs it"}.in(
        stepGroup),
    OptionText{"entropy-bonus", "",
               "let objectives depend on the entropy; the head's backward then takes a second sweep of the vocabulary"}
        .in(stepGroup),
    OptionText{"router-aux-loss-coef", "X",
               "add so many times the loss of how unevenly a mixture's experts are used, as transformers does with "
               "output_router_logits",
               "0"}
        .in(stepGroup)
        .from(0),
    OptionText{"random-weights", "SEED", "draw random weights with this seed, for a --shape-only export"}.in(
        drawnGroup),
    {"wire", "TYPE",
     "type of what crosses between the halves (default: as --precision); bf16 under f32 halves the bytes and rounds "
     "what crosses, so that gradients are those of the rounded model; without --split, one process rounds alike"},
    {"rates", "FILE",
     "predict times from this file of mebp calibrate, or none for estimates that are the same on any machine (default: "
     "~/.cache/mebp/rates.json, if it exists)"},
    OptionText{"chunk-size", "N", "process sequences in chunks of this many tokens; 0 for whole sequences", "0"}
        .in(memoryGroup)
        .from(0, 1 << 20)
        .chosenByPlans(),
    OptionText{"checkpoint-spacing", "N", "keep the input of every N-th layer and recompute the others", "1"}
        .in(memoryGroup)
        .from(1, 1 << 20)
        .chosenByPlans(),
    OptionText{"loss-rows", "N", "tokens in a tile of the loss", "128"}.in(memoryGroup).chosenByPlans(),
    OptionText{"loss-columns", "N", "vocabulary entries in a tile of the loss", "2048"}.in(memoryGroup).chosenByPlans(),
    {"spill", "WHAT",
     "what a step may keep in a file on a disk: none, checkpoints, or all (what is trained and the optimizer's state, "
     "too); with a budget, only where nothing else fits or a step is more than 5 percent faster for it (default: none; "
     "with a "
     "budget, checkpoints)"},
    {"resident-limit", "SIZE", "keep at most this much of the mapped weights in memory, such as 128MiB"},
    // Of a run.
    {"lr", "X", "learning rate; with a schedule, the highest", "2e-4"},
    {"weight-decay", "X", "weight decay, decoupled but for sgd", "0"},
    {"adapter-out", "DIR", "write the PEFT adapter to this folder"},
    {"state", "DIR", "keep the state of the run in this folder, for --resume"},
    {"save-every", "N", "save the state every N steps", "50"},
    {"resume", "", "continue the run in --state"},
    {"profile", "trace.json", "record every kernel call, for ui.perfetto.dev"},
    {"threads", "N", "CPU threads to use (default: all)"},
    {"device", "NAME", "compute on cpu, mlx (a GPU) or mlx-cpu, see mebp devices", "cpu"},
    // Of a device's half of a split model.
    {"connect", "HOST:PORT", "of NAME.edge.mebp: the layers are at this server, which runs mebp serve"},
    {"cert", "FILE", "this device's certificate, such as client.pem of mebp certs"},
    {"key", "FILE", "its key, such as client.key"},
    {"ca", "FILE", "the authority that has signed the server's certificate: ca.pem"},
    {"plain-text", "", "neither encrypt nor check who is there, between addresses of one machine"},
    {"retry-for", "SECONDS", "try so long to reach a server that is gone", "60"},
};

// A name that is not there is a mistake of ours, which the first run of the command shows.
constexpr const OptionText &optionText(std::string_view name) {
  // Not findByName: with UBSan, GCC 12 takes no comparison of a pointer into a table for a constant.
  for (const OptionText &text : options)
    if (text.name == name)
      return text;
  std::abort();
}

} // namespace mebp::format
