// SPDX-License-Identifier: Apache-2.0
//
// The options of a command: read from its arguments, and listed by --help. Small, since it goes onto phones.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

struct CommandOption {
  std::string name; // "--steps"; without the dashes it is given by its place
  // Where the value goes; a bool is a flag.
  std::variant<bool *, std::string *, uint32_t *, uint64_t *, double *> value;
  std::string help;
  bool isRequired = false;
  std::string initial = {}; // as --help shows it
  std::vector<std::string> choices = {};
  std::string needs = {}, excludes = {}; // other options' names
  std::string type = "TEXT";             // what --help calls a string, which is read elsewhere
  bool isPath = false;                   // one that may begin with ~
  bool isGiven = false;
};

class CommandLine {
public:
  CommandLine(std::string name, std::string purpose, std::string version, std::vector<CommandOption> options)
      : name(std::move(name)), purpose(std::move(purpose)), version(std::move(version)), options(std::move(options)) {}

  // -1: go on; otherwise the exit status, after the message was printed.
  int parse(int argc, char **argv);

private:
  std::string parseArguments(int argc, char **argv); // what is wrong with them, if anything
  std::string checkTogether() const;
  CommandOption *find(const std::string &option);
  bool isGiven(const std::string &option) const;
  void printHelp() const;

  std::string name, purpose, version;
  std::vector<CommandOption> options;
};
