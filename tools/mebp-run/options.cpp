// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <cstdio>

#include <CLI/CLI.hpp>

#include "format/byte_size.h"
#include "format/folders.h"
#include "format/optimizers.h"
#include "mebp/mebp.h"

int parseOptions(int argc, char **argv, RunOptions &out) {
  CLI::App app("Fine-tunes a compiled model on a file of tokens.", "mebp-run");
  app.add_option("bundle", out.bundle, "NAME.mebp, made by mebpc")->required();
  app.add_option("--tokens", out.tokens, "token ids: .npy of int32 or int64, or .bin of little-endian uint32")
      ->required();
  app.add_option("--steps", out.steps, "train for this many steps (default: every row once)")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--optimizer", out.optimizer, mebp::format::listOptimizers())
      ->capture_default_str()
      ->check(CLI::IsMember(mebp::format::optimizerNames()));
  app.add_option("--lr", out.learningRate, "learning rate")->capture_default_str();
  app.add_option("--weight-decay", out.weightDecay, "decoupled weight decay")->capture_default_str();
  app.add_option("--sequence", out.sequence, "tokens in a row, at most the compiled length")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--adapter-out", out.adapterFolder, "write the PEFT adapter to this folder");
  CLI::Option *state = app.add_option("--state", out.stateFolder, "keep the state in this folder, for --resume");
  app.add_option("--save-every", out.saveEvery, "save the state every so many steps")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 30));
  CLI::Option *resume = app.add_flag("--resume", out.resume, "continue the run in --state")->needs(state);
  app.add_flag("--overwrite", out.overwrite, "replace the state and adapter of an earlier run")->excludes(resume);
  app.add_option("--threads", out.threads, "CPU threads to use (default: all)")->check(CLI::Range(1, 1 << 30));
  app.add_option("--device", out.device, "compute on cpu, mlx (a GPU) or mlx-cpu, see mebp devices")
      ->capture_default_str();
  app.add_flag("--sample-memory", out.sampleMemory, "measure the peak after every kernel call, which is slow");
  CLI::Option *spill =
      app.add_option("--spill", out.spillFolder,
                     "keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills)");
  app.add_flag("--spill-optimizer", out.stateInFile,
               "keep the optimizer's state there, too; every step writes all of it")
      ->needs(spill);
  std::string residentLimit;
  CLI::Option *resident = app.add_option("--resident-limit", residentLimit,
                                         "keep at most this much of the weights in memory, such as 128MiB");
  app.add_option("--profile", out.traceFile, "record every kernel call, for ui.perfetto.dev");
  app.add_flag("--json", out.json, "print one JSON object per line");
  app.set_version_flag("--version", std::string("mebp-run ") + mebp_version(), "print the version");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &help) {
    return app.exit(help);
  } catch (const CLI::Error &error) {
    std::fprintf(stderr, "mebp-run: %s; see mebp-run --help\n", error.what());
    return 2;
  }
  for (std::string *path :
       {&out.bundle, &out.tokens, &out.adapterFolder, &out.stateFolder, &out.spillFolder, &out.traceFile})
    *path = mebp::format::userPath(*path);
  if (resident->count()) {
    if (std::string wrong = mebp::format::parseByteSize(residentLimit, out.residentLimit); !wrong.empty()) {
      std::fprintf(stderr, "mebp-run: --resident-limit %s %s\n", residentLimit.c_str(), wrong.c_str());
      return 2;
    }
  }
  return -1;
}
