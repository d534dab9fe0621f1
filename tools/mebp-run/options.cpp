// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <cstdio>

#include <CLI/CLI.hpp>

#include "format/byte_size.h"
#include "format/optimizers.h"

int parseOptions(int argc, char **argv, RunOptions &out) {
  CLI::App app("Fine-tunes a compiled model on token files.", "mebp-run");
  app.add_option("bundle", out.bundle, "NAME.mebp, made by mebpc")->required();
  app.add_option("--tokens", out.tokens, "token ids: .npy of int32 or int64, or .bin of little-endian uint32")
      ->required();
  app.add_option("--steps", out.steps, "how many steps; otherwise every row once")->check(CLI::Range(1, 1 << 30));
  app.add_option("--optimizer", out.optimizer, mebp::format::listOptimizers())
      ->capture_default_str()
      ->check(CLI::IsMember(mebp::format::optimizerNames()));
  app.add_option("--lr", out.learningRate, "learning rate")->capture_default_str();
  app.add_option("--weight-decay", out.weightDecay, "decoupled weight decay")->capture_default_str();
  app.add_option("--sequence", out.sequence, "tokens of a row, up to the compiled number")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--adapter-out", out.adapterFolder, "folder for the PEFT adapter");
  CLI::Option *state = app.add_option("--state", out.stateFolder, "folder for the state that --resume continues from");
  app.add_option("--save-every", out.saveEvery, "steps between saved states")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 30));
  app.add_flag("--resume", out.resume, "continue from the state")->needs(state);
  app.add_option("--threads", out.threads, "threads; otherwise as many as the process may run on")
      ->check(CLI::Range(1, 1 << 30));
  app.add_flag("--sample-memory", out.sampleMemory, "look for the peak after every kernel call, which takes time");
  CLI::Option *spill =
      app.add_option("--spill", out.spillFolder, "folder on a disk for checkpoints (where the plan spills: $TMPDIR)");
  app.add_flag("--spill-optimizer", out.stateInFile, "the optimizer's state, too: every step writes all of it")
      ->needs(spill);
  std::string residentLimit;
  CLI::Option *resident =
      app.add_option("--resident-limit", residentLimit, "128MiB: of the weights, no more is in memory at once");
  app.add_option("--profile", out.traceFile, "every kernel call of the run, for ui.perfetto.dev");
  app.add_flag("--json", out.json, "one JSON object a line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &help) {
    return app.exit(help);
  } catch (const CLI::Error &error) {
    std::fprintf(stderr, "mebp-run: %s; see mebp-run --help\n", error.what());
    return 2;
  }
  if (resident->count()) {
    if (std::string wrong = mebp::format::parseByteSize(residentLimit, out.residentLimit); !wrong.empty()) {
      std::fprintf(stderr, "mebp-run: --resident-limit %s %s\n", residentLimit.c_str(), wrong.c_str());
      return 2;
    }
  }
  return -1;
}
