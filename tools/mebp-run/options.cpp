// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <cstdio>

#include "command_line.h"
#include "format/byte_size.h"
#include "format/folders.h"
#include "format/optimizers.h"
#include "mebp/mebp.h"

int parseOptions(int argc, char **argv, RunOptions &out) {
  std::string residentLimit;
  CommandOption bundle{"bundle", &out.bundle, "NAME.mebp, made by mebpc", true};
  CommandOption tokens{"--tokens", &out.tokens, "token ids: .npy of int32 or int64, or .bin of little-endian uint32",
                       true};
  CommandOption optimizer{"--optimizer", &out.optimizer, mebp::format::listOptimizers(), false, out.optimizer};
  optimizer.choices = mebp::format::optimizerNames();
  CommandOption resume{"--resume", &out.resume, "continue the run in --state"};
  resume.needs = "--state";
  resume.excludes = "--overwrite";
  CommandOption overwrite{"--overwrite", &out.overwrite, "replace the state and adapter of an earlier run"};
  overwrite.excludes = "--resume";
  CommandOption spillOptimizer{"--spill-optimizer", &out.stateInFile,
                               "keep the optimizer's state there, too; every step writes all of it"};
  spillOptimizer.needs = "--spill";
  CommandLine line(
      "mebp-run", "Fine-tunes a compiled model on a file of tokens.", mebp_version(),
      {bundle,
       tokens,
       {"--steps", &out.steps, "train for this many steps (default: every row once)"},
       optimizer,
       {"--lr", &out.learningRate, "learning rate", false, "0.0002"},
       {"--weight-decay", &out.weightDecay, "decoupled weight decay", false, "0"},
       {"--sequence", &out.sequence, "tokens in a row, at most the compiled length"},
       {"--adapter-out", &out.adapterFolder, "write the PEFT adapter to this folder"},
       {"--state", &out.stateFolder, "keep the state in this folder, for --resume"},
       {"--save-every", &out.saveEvery, "save the state every so many steps", false, std::to_string(out.saveEvery)},
       resume,
       overwrite,
       {"--threads", &out.threads, "CPU threads to use (default: all)"},
       {"--device", &out.device, "compute on cpu, mlx (a GPU) or mlx-cpu, see mebp devices", false, out.device},
       {"--sample-memory", &out.sampleMemory, "measure the peak after every kernel call, which is slow"},
       {"--spill", &out.spillFolder,
        "keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills)"},
       spillOptimizer,
       {"--resident-limit", &residentLimit, "keep at most this much of the weights in memory, such as 128MiB"},
       {"--profile", &out.traceFile, "record every kernel call, for ui.perfetto.dev"},
       {"--json", &out.json, "print one JSON object per line"}});
  if (int status = line.parse(argc, argv); status >= 0)
    return status;
  for (std::string *path :
       {&out.bundle, &out.tokens, &out.adapterFolder, &out.stateFolder, &out.spillFolder, &out.traceFile})
    *path = mebp::format::userPath(*path);
  if (!residentLimit.empty()) {
    if (std::string wrong = mebp::format::parseByteSize(residentLimit, out.residentLimit); !wrong.empty()) {
      std::fprintf(stderr, "mebp-run: --resident-limit %s %s\n", residentLimit.c_str(), wrong.c_str());
      return 2;
    }
  }
  return -1;
}
