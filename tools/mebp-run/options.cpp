// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "command_line.h"
#include "format/byte_size.h"
#include "format/folders.h"
#include "format/optimizers.h"
#include "mebp/mebp.h"

// "0.9,0.99"
static bool parseBetas(const std::string &text, RunOptions &out) {
  char *end = nullptr;
  out.beta1 = std::strtod(text.c_str(), &end);
  if (*end != ',')
    return false;
  const char *second = end + 1;
  out.beta2 = std::strtod(second, &end);
  return end != second && *end == 0 && out.beta1 >= 0 && out.beta2 >= 0;
}

int parseOptions(int argc, char **argv, RunOptions &out) {
  std::string residentLimit, betas;
  CommandOption bundle{"bundle", &out.bundle, "NAME.mebp, made by mebpc", true};
  CommandOption tokens{"--tokens", &out.tokens, "token ids: .npy of int32 or int64, or .bin of little-endian uint32",
                       true};
  CommandOption optimizer{"--optimizer", &out.optimizer, mebp::format::listOptimizers() + " (default: as compiled)"};
  optimizer.choices = mebp::format::optimizerNames();
  CommandOption galoreRefresh{"--galore-refresh", &out.galoreRefresh, "of galore and qgalore, how they find them",
                              false, out.galoreRefresh};
  galoreRefresh.choices = {"sketch", "svd"};
  CommandOption resume{"--resume", &out.resume, "continue the run in --state"};
  resume.needs = "--state";
  resume.excludes = "--overwrite";
  CommandOption overwrite{"--overwrite", &out.overwrite, "replace the state and adapter of an earlier run"};
  overwrite.excludes = "--resume";
  CommandOption spillOptimizer{
      "--spill-optimizer", &out.stateInFile,
      "keep what is trained and the optimizer's state there, too; every step writes all of it"};
  spillOptimizer.needs = "--spill";
  mebp::net::GrpcEndpoint &server = out.server;
  CommandOption certificate{"--cert", &server.certificate, "this device's certificate"};
  CommandOption key{"--key", &server.key, "its key"};
  CommandOption authority{"--ca", &server.authority, "the authority that has signed the server's certificate"};
  CommandOption plainText{"--plain-text", &server.plainText,
                          "neither encrypt nor check who is there, between addresses of one machine"};
  CommandOption retryFor{"--retry-for", &out.retrySeconds, "try so many seconds to reach a server that is gone", false,
                         "60"};
  for (CommandOption *option : {&certificate, &key, &authority, &plainText, &retryFor})
    option->needs = "--connect";
  plainText.excludes = "--cert";
  CommandLine line(
      "mebp-run", "Fine-tunes a compiled model on a file of tokens.", mebp_version(),
      {bundle,
       tokens,
       {"--steps", &out.steps, "train for this many steps (default: every row once)"},
       optimizer,
       {"--lr", &out.learningRate, "learning rate", false, "0.0002"},
       {"--weight-decay", &out.weightDecay, "decoupled weight decay", false, "0"},
       {"--betas", &betas, "two numbers with a comma (default: 0.9,0.999; of lion 0.9,0.99)"},
       {"--eps", &out.epsilon, "what adamw and adamw8bit divide by at least (default: 1e-8)"},
       {"--momentum", &out.momentum, "of sgd, kept as large as what is trained (default: as compiled)"},
       {"--galore-scale", &out.galoreScale,
        "of galore and qgalore, what its updates are multiplied with (default: 0.25)"},
       {"--galore-update-interval", &out.galoreUpdateInterval,
        "of galore and qgalore, steps from one subspace to the next (default: 200)"},
       galoreRefresh,
       {"--galore-cos-threshold", &out.galoreCosThreshold,
        "of qgalore, similarity of subspaces from which on they last longer (default: 0.4)"},
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
       {"--connect", &server.address, "of NAME.edge.mebp: HOST:PORT of the server that runs mebp serve"},
       certificate,
       key,
       authority,
       plainText,
       retryFor,
       {"--json", &out.json, "print one JSON object per line"}});
  if (int status = line.parse(argc, argv); status >= 0)
    return status;
  for (std::string *path : {&out.bundle, &out.tokens, &out.adapterFolder, &out.stateFolder, &out.spillFolder,
                            &out.traceFile, &server.certificate, &server.key, &server.authority})
    *path = mebp::format::userPath(*path);
  if (!betas.empty() && !parseBetas(betas, out)) {
    std::fprintf(stderr, "mebp-run: --betas %s is not two numbers of at least 0, such as 0.9,0.999\n", betas.c_str());
    return 2;
  }
  for (auto [name, value] :
       {std::pair("--galore-scale", out.galoreScale), std::pair("--galore-update-interval", out.galoreUpdateInterval),
        std::pair("--galore-cos-threshold", out.galoreCosThreshold)})
    if (value != -1 && !(value > 0)) {
      std::fprintf(stderr, "mebp-run: %s %g is not a number above 0\n", name, value);
      return 2;
    }
  if (!server.address.empty() && !server.plainText)
    for (const CommandOption *file : {&certificate, &key, &authority})
      if (std::get<std::string *>(file->value)->empty()) {
        std::fprintf(stderr, "mebp-run: --connect needs %s FILE, or --plain-text\n", file->name.c_str());
        return 2;
      }
  if (!(out.retrySeconds > 0 && out.retrySeconds < 4e6)) {
    std::fprintf(stderr, "mebp-run: --retry-for %g is not a number of seconds above 0 and below 4000000\n",
                 out.retrySeconds);
    return 2;
  }
  if (!residentLimit.empty()) {
    if (std::string wrong = mebp::format::parseByteSize(residentLimit, out.residentLimit); !wrong.empty()) {
      std::fprintf(stderr, "mebp-run: --resident-limit %s %s\n", residentLimit.c_str(), wrong.c_str());
      return 2;
    }
  }
  return -1;
}
