// What the experiments of `berth simulate` have in common on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <expected>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/policy_configuration.h"
#include "server/exit_codes.h"
#include "sim/csv.h"
#include "sim/world/seeds.h"

namespace berth::sim {

enum class Format : std::uint8_t { kTable, kJson, kCsv };

struct CommonOptions {
  std::string traces;  ///< Folder.
  std::vector<std::uint64_t> seeds{42, 43, 44, 45, 46, 47, 48, 49, 50, 51};
  Format format = Format::kTable;
  unsigned threads = 0;  ///< 0: as many as cores.
  std::string
      policy_file;  ///< Whose `placement.score` the policy `Berth` has; empty: the defaults.
};

/// `A,B,C`, each of them in `allowed`; `all` stands for all of `allowed`. The error is the word
/// that is not allowed.
std::expected<std::vector<std::string>, std::string> ParseNames(
    std::string_view text, const std::vector<std::string_view>& allowed);

bool Contains(const std::vector<std::string>& names, const std::string& name);

/// Says on stderr what is wrong with a file. Returns the exit code.
int Fail(const TraceError& error);

/// The policy in `file`, the built-in one where it is empty. Errors are said on stderr, and the
/// exit code is returned.
std::expected<config::PolicyConfiguration, int> ReadPolicy(const std::string& file);

/// Returns the exit code; a file that cannot be written is said on stderr.
int WriteFile(const std::string& path, const std::string& text);

// --- What is added to a command must outlive the parsing.

/// Adds --seeds.
void AddSeedsOption(CLI::App& command, std::vector<std::uint64_t>& seeds, const std::string& help);
/// Adds -o,--output.
void AddOutputOption(CLI::App& command, Format& format);
/// Adds --threads.
void AddThreadsOption(CLI::App& command, unsigned& threads);
/// Adds `name`, which takes what ParseNames does.
void AddNamesOption(CLI::App& command, const std::string& name, std::vector<std::string>& chosen,
                    const std::vector<std::string_view>& allowed, const std::string& help);
/// Adds --against.
void AddAgainstOption(CLI::App& command, std::string& against);
/// Once all is parsed: a usage error where --against was given and is none of `policies`.
void CheckAgainst(const CLI::App& command, const std::string& against,
                  const std::vector<std::string>& policies);
/// Adds --traces, --seeds, -o, --threads and --policy-file.
void AddCommonOptions(CLI::App& command, CommonOptions& options);

/// Where the pods of a list of the openb format are, by its name (`openb_pod_list_NAME.csv` in
/// `folder`) or by its file (`.../mine.csv`), and what it is called in results.
struct PodList {
  std::string name;
  std::string path;
};
/// nullopt: neither a name nor a CSV file.
std::optional<PodList> FindPodList(const std::string& folder, const std::string& text);

/// What FindPodList takes, for CLI::Option::check.
CLI::Validator IsPodList();

/// The folder itself, or its sub-folder `name` where that exists.
std::string TraceFolder(const std::string& folder, const std::string& name);

/// Rows of one experiment, all with the same keys: as a JSON array, or as CSV with a header.
/// Numbers keep their shortest form, an absent value (null) is an empty field.
std::string RenderJson(const std::vector<nlohmann::ordered_json>& rows);
std::string RenderCsv(const std::vector<nlohmann::ordered_json>& rows);

/// Prints the rows where `format` is for machines. False: it is kTable, and nothing was printed.
bool PrintRows(Format format, const std::vector<nlohmann::ordered_json>& rows);

}  // namespace berth::sim
