// The manual page berth(1), from the command line itself.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace berth::server {

/// Troff for `man -l`: every command with its options and their defaults. `version`: of the
/// program.
std::string ManPage(const CLI::App& app, std::string_view version);

}  // namespace berth::server
