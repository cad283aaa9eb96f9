#include "server/cli/command_info.h"

#include <algorithm>
#include <utility>

namespace berth::server {
namespace {

/// The values of CLI::IsMember, from its description `{a,b,c}`.
std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const auto open = text.find('{');
  const auto close = text.find('}', open);
  std::vector<std::string> choices;
  if (open == std::string::npos || close == std::string::npos) return choices;
  std::string one;
  for (const char c : text.substr(open + 1, close - open - 1) + ",") {
    if (c != ',') {
      one += c;
    } else if (!one.empty()) {
      choices.push_back(std::exchange(one, {}));
    }
  }
  return choices;
}

OptionInfo Describe(const CLI::Option& option) {
  OptionInfo info{.names = {},
                  .help = option.get_description(),
                  .choices = ChoicesOf(option),
                  .initial = option.get_default_str()};
  for (const auto& name : option.get_snames()) info.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) info.names.push_back("--" + name);
  info.takes_value = option.get_items_expected_max() > 0;
  for (const char* word : {"file", "policy", "snapshot", "cluster", "config", "log", "authority",
                           "traces", "workload", "plot", "series", "list"}) {
    info.is_file |= std::ranges::any_of(
        info.names, [&](const std::string& name) { return name.ends_with(word); });
  }
  const std::string type = option.get_type_name();
  if (type.find("NAME") != std::string::npos && type.find("FILE") == std::string::npos) {
    info.is_file = false;  // `--policy NAME` of the simulator
  }
  return info;
}

}  // namespace

CommandInfo Describe(const CLI::App& app) {
  CommandInfo info{.name = app.get_name(),
                   .help = app.get_description(),
                   .options = {},
                   .arguments = {},
                   .choices = {},
                   .subcommands = {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      info.arguments.push_back(option->get_name(true));
      info.choices = ChoicesOf(*option);
    } else {
      info.options.push_back(Describe(*option));
    }
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    info.subcommands.push_back(Describe(*command));
    info.choices.push_back(command->get_name());
  }
  return info;
}

}  // namespace berth::server
