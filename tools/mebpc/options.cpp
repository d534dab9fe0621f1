// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include "declare.h"
#include "format/adapters.h"
#include "format/folders.h"
#include "format/readable.h"
#include "refusals.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace mebp {

std::optional<int> parseCommandLine(int argc, char **argv, Compilation &out) {
  constexpr int badInput = 2;
  out.options.training.threads = 0; // this machine's
  Texts texts;
  texts.precision = out.options.storage.narrowActivations ? "bf16" : "f32";
  CLI::App app{"Compiles an ONNX model into a bundle that trains within a planned amount of memory.", "mebpc"};
  declareOptions(app, out, texts);
  try {
    app.parse(argc, argv);
    if (out.input.empty() && !texts.checksOptions)
      throw CLI::RequiredError("model");
    for (std::string *path : {&out.input, &out.output, &out.rates, &out.planJson})
      *path = format::userPath(*path);
    if (isProgramText(out.input))
      refuseChoices(app, out.input);
    readTexts(texts, out);
    refuseIgnored(app, texts, out.options);
    if (app.get_option("--lora-targets")->count() == 0)
      out.options.lora.targets = CLI::detail::split(format::findAdapter(out.options.adapters.kind)->targets, ',');
    refuseValues(out.options);
    if (texts.checksOptions)
      return 0;
  } catch (const CLI::Success &success) {
    return app.exit(success);
  } catch (const CLI::ParseError &error) {
    std::cerr << "mebpc: " << format::readable(error.what()) << "; see mebpc --help\n";
    return badInput;
  } catch (const OptionError &error) {
    std::cerr << "mebpc: " << format::readable(error.what()) << "\n";
    return badInput;
  }
  return std::nullopt;
}

} // namespace mebp
