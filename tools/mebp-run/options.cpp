// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "command_line.h"
#include "format/byte_size.h"
#include "format/folders.h"
#include "format/optimizers.h"
#include "format/options.h"
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

// One that other commands have, too.
template <typename Value> static CommandOption shared(const char *name, Value *value) {
  const mebp::format::OptionText &text = mebp::format::optionText(name);
  return {std::string("--") + name, value, text.help, false, text.standard};
}

int parseOptions(int argc, char **argv, RunOptions &out) {
  std::string residentLimit, betas;
  CommandOption bundle{"bundle", &out.bundle, "NAME.mebp, made by mebpc", true};
  CommandOption tokens{"--tokens", &out.tokens, "token ids: .npy of int32 or int64, or .bin of little-endian uint32",
                       true};
  CommandOption optimizer{"--optimizer", &out.optimizer, mebp::format::listOptimizers() + " (default: as compiled)"};
  optimizer.choices = mebp::format::optimizerNames();
  CommandOption galoreRefresh = shared("galore-refresh", &out.galoreRefresh);
  galoreRefresh.choices = {"sketch", "svd"};
  CommandOption resume = shared("resume", &out.resume);
  resume.needs = "--state";
  resume.excludes = "--overwrite";
  CommandOption overwrite{"--overwrite", &out.overwrite, "replace the state and adapter of an earlier run"};
  overwrite.excludes = "--resume";
  CommandOption spillOptimizer{
      "--spill-optimizer", &out.stateInFile,
      "keep what is trained and the optimizer's state there, too; every step writes all of it"};
  spillOptimizer.needs = "--spill";
  mebp::net::GrpcEndpoint &server = out.server;
  CommandOption certificate = shared("cert", &server.certificate), key = shared("key", &server.key);
  CommandOption authority = shared("ca", &server.authority), plainText = shared("plain-text", &server.plainText);
  CommandOption retryFor = shared("retry-for", &out.retrySeconds);
  for (CommandOption *option : {&certificate, &key, &authority, &plainText, &retryFor})
    option->needs = "--connect";
  plainText.excludes = "--cert";
  CommandLine line("mebp-run", "Fine-tunes a compiled model on a file of tokens.", mebp_version(),
                   {bundle,
                    tokens,
                    {"--steps", &out.steps, "train for this many steps (default: every row once)"},
                    optimizer,
                    shared("lr", &out.learningRate),
                    shared("weight-decay", &out.weightDecay),
                    shared("betas", &betas),
                    shared("eps", &out.epsilon),
                    shared("momentum", &out.momentum),
                    shared("galore-scale", &out.galoreScale),
                    shared("galore-update-interval", &out.galoreUpdateInterval),
                    galoreRefresh,
                    shared("galore-cos-threshold", &out.galoreCosThreshold),
                    {"--sequence", &out.sequence, "tokens in a row, at most the compiled length"},
                    shared("adapter-out", &out.adapterFolder),
                    shared("state", &out.stateFolder),
                    shared("save-every", &out.saveEvery),
                    resume,
                    overwrite,
                    shared("threads", &out.threads),
                    shared("device", &out.device),
                    {"--sample-memory", &out.sampleMemory, "measure the peak after every kernel call, which is slow"},
                    shared("spill", &out.spillFolder),
                    spillOptimizer,
                    shared("resident-limit", &residentLimit),
                    shared("profile", &out.traceFile),
                    shared("connect", &server.address),
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
