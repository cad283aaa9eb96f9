// The command line as data, read from CLI11: what completion scripts and the manual page are made
// of, so that neither can go stale.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace berth::server {

struct OptionInfo {
  std::vector<std::string> names;  ///< With their dashes.
  std::string help;
  std::vector<std::string> choices;  ///< The values that it takes, where they are few.
  std::string initial;               ///< The value without it; empty: none, or not told.
  bool takes_value = false;
  bool is_file = false;
};

struct CommandInfo {
  std::string name;
  std::string help;
  std::vector<OptionInfo> options;
  std::vector<std::string> arguments;  ///< Names of the positional ones.
  std::vector<std::string> choices;    ///< Of the positional argument, or its subcommands.
  std::vector<CommandInfo> subcommands;
};

/// `app` and all that is under it, in the order of its declarations.
CommandInfo Describe(const CLI::App& app);

}  // namespace berth::server
