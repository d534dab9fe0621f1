// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <cstdio>

#include "command_line.h"
#include "format/folders.h"
#include "format/optimizers.h"
#include "format/options.h"
#include "mebp/mebp.h"

// One that other commands have, too.
template <typename Value> static CommandOption shared(const char *name, Value *value) {
  const mebp::format::OptionText &text = mebp::format::optionText(name);
  return {std::string("--") + name, value, text.help, false, text.standard};
}

// Those of every session, then those that only some optimizers have, in one place whose addresses stay.
static std::vector<CommandOption> sessionOptions(std::vector<SessionText> &out) {
  const uint32_t ofAll = mebp_session_option_count(), ofSome = mebp_optimizer_option_count();
  std::vector<CommandOption> options;
  out.reserve(ofAll + ofSome);
  for (uint32_t i = 0; i < ofAll; ++i) {
    mebp_session_option_info info;
    mebp_session_option_info_init(&info);
    mebp_session_option_get_info(i, &info, nullptr);
    if (!info.run_name)
      continue;
    SessionText &given = out.emplace_back(SessionText{info.called, ""});
    CommandOption &option = options.emplace_back();
    option.name = std::string("--") + info.run_name;
    if (info.kind == MEBP_OPTION_FLAG)
      option.value = &given.isOn;
    else
      option.value = &given.text;
    option.type = info.kind == MEBP_OPTION_COUNT ? "UINT" : info.kind == MEBP_OPTION_NUMBER ? "FLOAT" : "TEXT";
    option.isPath = info.kind == MEBP_OPTION_PATH;
    option.help = info.help;
    option.initial = info.standard ? info.standard : "";
    if (option.name == "--optimizer")
      option.choices = mebp::format::namesOf(mebp::format::optimizers);
    if (option.name == "--spill-optimizer")
      option.needs = "--spill";
  }
  for (uint32_t i = 0; i < ofSome; ++i) {
    mebp_optimizer_option_info info;
    mebp_optimizer_option_info_init(&info);
    mebp_optimizer_option_get_info(i, &info, nullptr);
    SessionText &given = out.emplace_back(SessionText{info.name, ""});
    CommandOption &option = options.emplace_back();
    option.name = std::string("--") + info.name;
    option.value = &given.text;
    option.help = info.help;
    option.type = !info.choices && info.numbers == 1 ? "FLOAT" : "TEXT";
    for (const char *const *choice = info.choices; choice && *choice; ++choice)
      option.choices.emplace_back(*choice);
  }
  return options;
}

int parseOptions(int argc, char **argv, RunOptions &out) {
  CommandOption bundle{"bundle", &out.bundle, "NAME.mebp, made by mebpc", true};
  CommandOption tokens{"--tokens", &out.tokens, "token ids: .npy of int32 or int64, or .bin of little-endian uint32"};
  CommandOption data{"--data", &out.data, "JSON lines of text, prompts and completions, or conversations; or --tokens"};
  tokens.excludes = "--data";
  CommandOption lossOn{"--loss-on", &out.lossOn, "which tokens of conversations count"};
  lossOn.choices = {"assistant", "last", "all", "turns"};
  lossOn.initial = "assistant";
  lossOn.needs = "--data";
  CommandOption resume = shared("resume", &out.resume);
  resume.needs = "--state";
  resume.excludes = "--overwrite";
  CommandOption overwrite{"--overwrite", &out.overwrite, "replace the state and adapter of an earlier run"};
  overwrite.excludes = "--resume";
  mebp::net::GrpcEndpoint &server = out.server;
  CommandOption certificate = shared("cert", &server.certificate), key = shared("key", &server.key);
  CommandOption authority = shared("ca", &server.authority), plainText = shared("plain-text", &server.plainText);
  CommandOption retryFor = shared("retry-for", &out.retrySeconds);
  for (CommandOption *option : {&certificate, &key, &authority, &plainText, &retryFor})
    option->needs = "--connect";
  plainText.excludes = "--cert";
  std::vector<CommandOption> options = {
      bundle, tokens, data, lossOn, {"--steps", &out.steps, "train for this many steps (default: every row once)"}};
  for (const CommandOption &option : sessionOptions(out.ofSession))
    options.push_back(option);
  const std::vector<CommandOption> rest = {
      {"--sequence", &out.sequence, "tokens in a row, at most the compiled length"},
      shared("adapter-out", &out.adapterFolder),
      shared("state", &out.stateFolder),
      shared("save-every", &out.saveEvery),
      resume,
      overwrite,
      shared("connect", &server.address),
      certificate,
      key,
      authority,
      plainText,
      retryFor,
      {"--json", &out.json, "print one JSON object per line"}};
  options.insert(options.end(), rest.begin(), rest.end());
  CommandLine line("mebp-run", "Fine-tunes a compiled model on a file of tokens or of text.", mebp_version(),
                   std::move(options));
  if (int status = line.parse(argc, argv); status >= 0)
    return status;
  for (std::string *path : {&out.bundle, &out.tokens, &out.data, &out.adapterFolder, &out.stateFolder,
                            &server.certificate, &server.key, &server.authority})
    *path = mebp::format::userPath(*path);
  if (out.tokens.empty() && out.data.empty()) {
    std::fprintf(stderr, "mebp-run: there is nothing to train on; give --tokens or --data\n");
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
  return -1;
}
