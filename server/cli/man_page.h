// The manual page berth(1), generated from the command line definition.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace berth::server {

/// Troff for `man -l`: every command with its options and their defaults. `version`: the program's
/// version.
std::string ManPage(const CLI::App& app, std::string_view version);

}  // namespace berth::server
