// Command-line options that the experiments of `berth simulate` share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/policy_configuration.h"
#include "server/cli/exit_codes.h"
#include "sim/experiments/csv.h"
#include "sim/rows.h"
#include "sim/seeds.h"

namespace berth::sim {

/// What AddCommonOptions reads.
struct CommonOptions {
  std::string traces;  ///< Folder.
  std::vector<std::uint64_t> seeds{42, 43, 44, 45, 46, 47, 48, 49, 50, 51};
  Format format = Format::kTable;
  unsigned threads = 0;     ///< 0: one per core.
  std::string policy_file;  ///< Empty: the built-in policy.
};

/// `A,B,C`, each of them in `allowed`; `all` means all of `allowed`. The error is the name that is
/// not allowed.
std::expected<std::vector<std::string>, std::string> ParseNames(
    std::string_view text, const std::vector<std::string_view>& allowed);

/// Whether the name is one of them.
bool Contains(const std::vector<std::string>& names, const std::string& name);

/// Prints on stderr what is wrong with a file. Returns the exit code.
int Fail(const InputError& error);

/// The policy in `file`, or the built-in one if `file` is empty. An error is printed on stderr, and
/// the exit code is returned.
std::expected<config::PolicyConfiguration, int> ReadPolicy(const std::string& file);

/// Returns the exit code; if the file cannot be written, prints an error on stderr.
int WriteFile(const std::string& path, const std::string& text);

// --- Variables that are passed to these functions must outlive the parsing.

/// Adds --seeds.
void AddSeedsOption(CLI::App& command, std::vector<std::uint64_t>& seeds, const std::string& help);
/// Adds -o,--output.
void AddOutputOption(CLI::App& command, Format& format);
/// Accepts numbers from `low` up to `high`: unlike CLI::Range, not `nan`.
CLI::Validator NumberFrom(double low, double high);
/// Adds --threads.
void AddThreadsOption(CLI::App& command, unsigned& threads);
/// Adds `name`, which takes what ParseNames accepts.
void AddNamesOption(CLI::App& command, const std::string& name, std::vector<std::string>& chosen,
                    const std::vector<std::string_view>& allowed, const std::string& help);
/// Adds --against.
void AddAgainstOption(CLI::App& command, std::string& against);
/// After parsing: a usage error if --against was given and is not one of `policies`.
void CheckAgainst(const CLI::App& command, const std::string& against,
                  const std::vector<std::string>& policies);
/// Adds --traces, --seeds, -o, --threads and --policy-file.
void AddCommonOptions(CLI::App& command, CommonOptions& options);

/// The file of a pod list in the openb format and its name in results. A list is given by name
/// (`openb_pod_list_NAME.csv` in `folder`) or by file (`.../mine.csv`).
struct PodList {
  std::string name;
  std::string path;
};
/// nullopt: `text` is neither a name nor a CSV file.
std::optional<PodList> FindPodList(const std::string& folder, const std::string& text);

/// Accepts what FindPodList does, for CLI::Option::check.
CLI::Validator IsPodList();

/// The folder itself, or its sub-folder `name` where that exists.
std::string TraceFolder(const std::string& folder, const std::string& name);

}  // namespace berth::sim
