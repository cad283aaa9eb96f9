// The pages of /api/v1 as tables and paragraphs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "server/table.h"

namespace berth::server {

/// `wide` shows more columns. Total over any JSON: what is missing or of another type shows as `-`.
Table QueuesTable(const nlohmann::ordered_json& page, bool wide);
Table GangsTable(const nlohmann::ordered_json& page, bool wide);
Table PodsTable(const nlohmann::ordered_json& page, bool wide);
Table NodesTable(const nlohmann::ordered_json& page, bool wide);
/// Nodes and devices by model.
Table ModelsTable(const nlohmann::ordered_json& page);
std::string WhyText(const nlohmann::ordered_json& why, bool wide);

/// The value under `key`; null where there is none.
const nlohmann::ordered_json& At(const nlohmann::ordered_json& json, std::string_view key);

/// The text or number under `key` on one line, as a terminal may show it; else empty.
std::string TextOf(const nlohmann::ordered_json& json, std::string_view key);

}  // namespace berth::server
