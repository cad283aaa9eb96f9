// Shell completion, generated from the commands and options themselves so that it cannot go stale.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace berth::server {

/// The script for `bash`, `zsh` or `fish`; nullopt: another shell. `program` is the command's file
/// name.
std::optional<std::string> CompletionScript(const CLI::App& app, std::string_view program,
                                            std::string_view shell);

}  // namespace berth::server
