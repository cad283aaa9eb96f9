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

/// How a page is printed: -o and the options beside it.
struct Output {
  OutputFormat format = OutputFormat::kTable;
  std::string path{};     ///< For kJsonPath: the template.
  bool headers = true;    ///< For a table.
  std::string sort_by{};  ///< A path in each item; empty: in the order of the service.
  bool by_model = false;  ///< For kNodes in a table: one line per model.
  bool by_user = false;   ///< For kQueues: also what users have used; a table has only that.
};

/// `queues`: the name of the path and of the command.
std::string_view NameOf(Question question);

/// Parses the value of `-o`. The error is for the user who typed it.
std::expected<void, std::string> ParseFormat(std::string_view text, Output& output);

/// Which items of a page are wanted. Empty: all.
struct Wanted {
  std::vector<std::string> names{};  ///< NAME or NAMESPACE/NAME.
  std::string queue{};
};
/// Leaves the other items out. The error names one that does not exist.
std::expected<void, std::string> Select(Question question, const Wanted& wanted,
                                        nlohmann::ordered_json& page);

/// The page as it is printed, including its trailing newline. Accepts any JSON: values that are
/// missing or of another type show as `-`. The error is for the user who typed the options.
std::expected<std::string, std::string> Print(Question question, nlohmann::ordered_json page,
                                              const Output& output);

}  // namespace berth::server
