// SPDX-License-Identifier: Apache-2.0
//
// The options that more than one of mebp, mebpc and mebp-run have, with what each says of them in its --help: one
// wording, wherever an option stands. What one command alone has stands there.
#pragma once

#include <cstdlib>
#include <string_view>

namespace mebp::format {

struct OptionText {
  const char *name;
  const char *value; // what the command line calls it; empty for one that is on or off
  const char *help;
  const char *standard = ""; // what holds where it is not given; empty where the help says it, or nothing does
};

inline constexpr OptionText options[] = {
    // Of a bundle: mebpc's, which `mebp train MODEL` passes on.
    {"precision", "TYPE", "type of the activations: bf16 or f32", "bf16"},
    {"weights", "TYPE", "type of the frozen weights: f32, bf16, int8, int4 or int4-sym", "int4"},
    {"embedding-weights", "TYPE",
     "type of the embedding and the head (default: int8 with quantised weights, else as --weights)"},
    {"train", "WHAT", "train adapters (lora), or weights of the model themselves (full)", "lora"},
    {"train-targets", "NAMES",
     "with --train full, which weights: all-linear, or patterns of names in which * stands for anything, such as "
     "'*norm*' or '*'",
     "all-linear"},
    {"lora-rank", "N", "rank of the LoRA adapters", "8"},
    {"lora-alpha", "X", "scale adapters by alpha / rank", "16"},
    {"lora-targets", "NAMES",
     "layers to adapt: all-linear, which leaves the head out, or names such as q_proj,lm_head or, of experts, "
     "experts.down_proj",
     "all-linear"},
    {"rank-down", "N", "numbers of a token that come from a layer", "32"},
    {"rank-up", "N", "numbers of a token that go back to a layer", "32"},
    {"share-a", "", "one A for layers that read one value: q, k and v"},
    {"split-layers", "N-N", "adapt these layers alone: the first and the last, as in 0-7 (default: all)"},
    {"galore-rank", "N", "dimensions that a matrix's gradient is projected to", "64"},
    {"router-aux-loss-coef", "X",
     "add so many times the loss of how unevenly a mixture's experts are used, as transformers does with "
     "output_router_logits",
     "0"},
    {"resident-limit", "SIZE", "keep at most this much of the mapped weights in memory, such as 128MiB"},
    // Of a run.
    {"lr", "X", "learning rate; with a schedule, the highest", "2e-4"},
    {"weight-decay", "X", "weight decay, decoupled but for sgd", "0"},
    {"adapter-out", "DIR", "write the PEFT adapter to this folder"},
    {"state", "DIR", "keep the state of the run in this folder, for --resume"},
    {"save-every", "N", "save the state every N steps", "50"},
    {"resume", "", "continue the run in --state"},
    {"spill", "DIR", "keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills)"},
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
  for (const OptionText &option : options)
    if (name == option.name)
      return option;
  std::abort();
}

} // namespace mebp::format
