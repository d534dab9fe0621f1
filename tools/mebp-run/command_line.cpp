// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "format/folders.h"
#include "format/readable.h"

// What a number of something may be.
constexpr unsigned long long least = 1, most = 1 << 30;

static bool isPlaced(const CommandOption &option) { return option.name[0] != '-'; }
static bool isFlag(const CommandOption &option) { return std::holds_alternative<bool *>(option.value); }
static bool isCount(const CommandOption &option) {
  return std::holds_alternative<uint32_t *>(option.value) || std::holds_alternative<uint64_t *>(option.value);
}

static std::string list(const std::vector<std::string> &names, const char *between) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : between) + name;
  return text;
}

// Stores a value and returns what is wrong with it, if anything.
static std::string store(const CommandOption &option, const std::string &text) {
  char *end = nullptr;
  errno = 0;
  if (auto *place = std::get_if<std::string *>(&option.value)) {
    **place = option.isPath ? mebp::format::userPath(text) : text;
    const auto &choices = option.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end())
      return text + " is not one of " + list(choices, ", ");
  } else if (auto *place = std::get_if<double *>(&option.value)) {
    **place = std::strtod(text.c_str(), &end);
    if (*end)
      return text + " is not a number";
  } else {
    const unsigned long long count = std::strtoull(text.c_str(), &end, 10);
    if (*end || errno || text[0] == '-' || count < least || count > most)
      return text + " is not a whole number from " + std::to_string(least) + " to " + std::to_string(most);
    if (auto *small = std::get_if<uint32_t *>(&option.value))
      **small = static_cast<uint32_t>(count);
    else
      **std::get_if<uint64_t *>(&option.value) = count;
  }
  return "";
}

CommandOption *CommandLine::find(const std::string &option) {
  auto found =
      std::find_if(options.begin(), options.end(), [&](const CommandOption &one) { return one.name == option; });
  return found == options.end() ? nullptr : &*found;
}

bool CommandLine::isGiven(const std::string &option) const {
  return std::any_of(options.begin(), options.end(),
                     [&](const CommandOption &one) { return one.isGiven && one.name == option; });
}

// --name value, --name=value, or what is given by its place: the first such option that is not given yet.
std::string CommandLine::parseArguments(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool isNamed = argument.size() > 1 && argument[0] == '-';
    const size_t equals = isNamed ? argument.find('=') : argument.npos;
    auto next = std::find_if(options.begin(), options.end(),
                             [](const CommandOption &one) { return isPlaced(one) && !one.isGiven; });
    CommandOption *option = isNamed ? find(argument.substr(0, equals)) : next != options.end() ? &*next : nullptr;
    if (!option)
      return argument + " is not an option";
    if (option->isGiven)
      return option->name + " is given twice";
    option->isGiven = true;
    if (isFlag(*option)) {
      if (equals != argument.npos)
        return option->name + " takes no value";
      **std::get_if<bool *>(&option->value) = true;
      continue;
    }
    if (isNamed && equals == argument.npos && ++i == argc)
      return option->name + " needs a value";
    const std::string text = equals != argument.npos ? argument.substr(equals + 1) : argv[i];
    if (text.empty())
      return option->name + " needs a value";
    if (std::string wrong = store(*option, text); !wrong.empty())
      return option->name + " " + wrong;
  }
  return "";
}

std::string CommandLine::checkTogether() const {
  for (const CommandOption &option : options) {
    if (option.isRequired && !option.isGiven)
      return option.name + " is required";
    if (option.isGiven && !option.needs.empty() && !isGiven(option.needs))
      return option.name + " requires " + option.needs;
    if (option.isGiven && !option.excludes.empty() && isGiven(option.excludes))
      return option.name + " excludes " + option.excludes;
  }
  return "";
}

// In two columns; docs/write_cli.py reads them.
static void printRow(const std::string &left, const std::string &help) {
  constexpr size_t column = 30;
  std::string line = "  " + left;
  if (line.size() + 1 > column)
    line += '\n' + std::string(column, ' ');
  else
    line.resize(column, ' ');
  std::printf("%s%s\n", line.c_str(), help.c_str());
}

static void printOption(const CommandOption &option) {
  std::string left = option.name;
  left += isFlag(option)    ? ""
          : isCount(option) ? " UINT:INT in [" + std::to_string(least) + " - " + std::to_string(most) + "]"
          : std::holds_alternative<double *>(option.value) ? " FLOAT"
                                                           : " " + option.type;
  if (!option.choices.empty())
    left += ":{" + list(option.choices, ",") + "}";
  if (!option.initial.empty())
    left += "=" + option.initial;
  if (option.isRequired)
    left += " REQUIRED";
  if (!option.needs.empty())
    left += " Needs: " + option.needs;
  if (!option.excludes.empty())
    left += " Excludes: " + option.excludes;
  printRow(left, option.help);
}

void CommandLine::printHelp() const {
  std::string places;
  for (const CommandOption &option : options)
    places += isPlaced(option) ? " " + option.name : "";
  std::printf("%s\nUsage: %s [OPTIONS]%s\n\nPositionals:\n", purpose.c_str(), name.c_str(), places.c_str());
  for (const CommandOption &option : options)
    if (isPlaced(option))
      printOption(option);
  std::printf("\nOptions:\n");
  printRow("-h,--help", "Print this help message and exit");
  for (const CommandOption &option : options)
    if (!isPlaced(option))
      printOption(option);
  printRow("--version", "print the version");
}

int CommandLine::parse(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--version") {
      std::printf("%s %s\n", name.c_str(), version.c_str());
      return 0;
    }
    if (argument == "--help" || argument == "-h") {
      printHelp();
      return 0;
    }
  }
  std::string wrong = parseArguments(argc, argv);
  if (wrong.empty())
    wrong = checkTogether();
  if (wrong.empty())
    return -1;
  std::fprintf(stderr, "%s: %s; see %s --help\n", name.c_str(), mebp::format::readable(wrong).c_str(), name.c_str());
  return 2;
}
