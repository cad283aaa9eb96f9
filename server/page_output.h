// How an answer of a running service is printed: which items, in which order, in which format.
#pragma once

#include <cstdint>
#include <expected>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace berth::server {

enum class Question : std::uint8_t { kWhy, kQueues, kGangs, kPods, kNodes };
enum class OutputFormat : std::uint8_t { kTable, kWide, kJson, kYaml, kName, kJsonPath };

struct Output {
  OutputFormat format = OutputFormat::kTable;
  std::string path{};     ///< Of kJsonPath: the template.
  bool headers = true;    ///< Of a table.
  std::string sort_by{};  ///< A path in each item; empty: as the service has it.
  bool by_model = false;  ///< Of kNodes in a table: a line for each model.
};

/// `queues`, as the path and the command are called.
std::string_view NameOf(Question question);

/// What `-o` takes. The error is for whoever typed it.
std::expected<void, std::string> ParseFormat(std::string_view text, Output& output);

/// Which items of a page are wanted. Empty: all.
struct Wanted {
  std::vector<std::string> names{};  ///< NAME or NAMESPACE/NAME.
  std::string queue{};
};
/// Leaves the others out. The error names one that is not there.
std::expected<void, std::string> Select(Question question, const Wanted& wanted,
                                        nlohmann::ordered_json& page);

/// The page as it is printed, its trailing newline included. Total over any JSON: what is missing
/// or of another type shows as `-`. The error is for whoever typed the options.
std::expected<std::string, std::string> Print(Question question, nlohmann::ordered_json page,
                                              const Output& output);

}  // namespace berth::server
