// How the experiments of `berth simulate` print their rows for other programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace berth::sim {

/// What --output says. kTable: for people, and each experiment has its own tables.
enum class Format : std::uint8_t { kTable, kJson, kCsv };

/// Rows of one experiment, all with the same keys: as a JSON array, or as CSV with a header.
/// Numbers keep their shortest form; an absent value (null) is an empty field.
std::string RenderJson(const std::vector<nlohmann::ordered_json>& rows);
std::string RenderCsv(const std::vector<nlohmann::ordered_json>& rows);

/// Prints the rows if `format` is machine-readable. False: it is kTable, and nothing was printed.
bool PrintRows(Format format, const std::vector<nlohmann::ordered_json>& rows);

}  // namespace berth::sim
