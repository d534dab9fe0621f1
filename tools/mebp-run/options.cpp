// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <cstdio>
#include <utility>

#include "command_line.h"
#include "format/byte_size.h"
#include "format/folders.h"
#include "format/optimizers.h"
#include "format/options.h"
#include "mebp/mebp.h"

// One that other commands have, too.
template <typename Value> static CommandOption shared(const char *name, Value *value) {
  const mebp::format::OptionText &text = mebp::format::optionText(name);
  return {std::string("--") + name, value, text.help, false, text.standard};
}

// Those that only some optimizers have.
static std::vector<CommandOption> optimizerOptions(RunOptions &out) {
  std::vector<mebp_optimizer_option_info> known(mebp_optimizer_option_count());
  for (uint32_t i = 0; i < known.size(); ++i) {
    mebp_optimizer_option_get_info(i, &known[i], nullptr);
    out.ofOptimizer.emplace_back(known[i].name, "");
  }
  std::vector<CommandOption> options;
  for (size_t i = 0; i < known.size(); ++i) {
    CommandOption &option = options.emplace_back();
    option.name = std::string("--") + known[i].name;
    option.value = &out.ofOptimizer[i].second;
    option.help = known[i].help;
    option.isNumber = !known[i].choices && known[i].numbers == 1;
    for (const char *const *choice = known[i].choices; choice && *choice; ++choice)
      option.choices.emplace_back(*choice);
  }
  return options;
}

int parseOptions(int argc, char **argv, RunOptions &out) {
  std::string residentLimit;
  CommandOption bundle{"bundle", &out.bundle, "NAME.mebp, made by mebpc", true};
  CommandOption tokens{"--tokens", &out.tokens, "token ids: .npy of int32 or int64, or .bin of little-endian uint32",
                       true};
  const std::vector<std::string> optimizerNames = mebp::format::namesOf(mebp::format::optimizers);
  CommandOption optimizer{"--optimizer", &out.optimizer,
                          mebp::format::listed(optimizerNames) + " (default: as compiled)"};
  optimizer.choices = optimizerNames;
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
  std::vector<CommandOption> options = {bundle,
                                        tokens,
                                        {"--steps", &out.steps, "train for this many steps (default: every row once)"},
                                        optimizer,
                                        shared("lr", &out.learningRate),
                                        shared("weight-decay", &out.weightDecay)};
  for (const CommandOption &option : optimizerOptions(out))
    options.push_back(option);
  const std::vector<CommandOption> rest = {
      {"--sequence", &out.sequence, "tokens in a row, at most the compiled length"},
      shared("adapter-out", &out.adapterFolder),
      shared("state", &out.stateFolder),
      shared("save-every", &out.saveEvery),
      resume,
      overwrite,
      shared("threads", &out.threads),
      shared("device", &out.device),
      {"--sample-memory", &out.sampleMemory, "measure the peak after every kernel call, which is slow"},
      {"--spill", &out.spillFolder,
       "keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills)"},
      spillOptimizer,
      shared("resident-limit", &residentLimit),
      shared("profile", &out.traceFile),
      shared("connect", &server.address),
      certificate,
      key,
      authority,
      plainText,
      retryFor,
      {"--json", &out.json, "print one JSON object per line"}};
  options.insert(options.end(), rest.begin(), rest.end());
  CommandLine line("mebp-run", "Fine-tunes a compiled model on a file of tokens.", mebp_version(), std::move(options));
  if (int status = line.parse(argc, argv); status >= 0)
    return status;
  for (std::string *path : {&out.bundle, &out.tokens, &out.adapterFolder, &out.stateFolder, &out.spillFolder,
                            &out.traceFile, &server.certificate, &server.key, &server.authority})
    *path = mebp::format::userPath(*path);
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
