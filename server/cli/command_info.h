// The command line as data, read from CLI11: completion scripts and the manual page are generated
// from it, so that neither can become outdated.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace berth::server {

/// An option or flag.
struct OptionInfo {
  std::vector<std::string> names;  ///< With their dashes.
  std::string help;
  std::vector<std::string> choices;  ///< The accepted values, where they are few.
  std::string initial;               ///< The default value; empty: none, or not documented.
  bool takes_value = false;
  bool is_file = false;
};

/// A command or subcommand.
struct CommandInfo {
  std::string name;
  std::string help;
  std::vector<OptionInfo> options;
  std::vector<std::string> arguments;  ///< Names of the positional arguments.
  std::vector<std::string> choices;    ///< Of the positional argument, or its subcommands.
  std::vector<CommandInfo> subcommands;
};

/// `app` and all its subcommands, in the order of declaration.
CommandInfo Describe(const CLI::App& app);

}  // namespace berth::server
