// Shell completion, generated from the commands and options so that it cannot become outdated.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::server {

/// The script for `bash`, `zsh` or `fish`; nullopt: another shell. `program` is the command's file
/// name.
std::optional<std::string> CompletionScript(const CLI::App& app, std::string_view program,
                                            std::string_view shell);

/// The output of kubectl's plugin program `kubectl_complete-berth` (kubectl 1.26 and later):
/// `words` are the words after `kubectl berth`, the last of them unfinished. In the form of cobra's
/// `__complete`: one line `WORD<tab>help` each, then `:4`, or `:0` where files may follow.
std::string KubectlCompletions(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace berth::server
