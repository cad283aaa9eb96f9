// The pages of /api/v1 as tables and paragraphs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "server/cli/table.h"

namespace berth::server {

/// `wide` shows more columns. Accepts any JSON: values that are missing or of another type show as
/// `-`.
Table QueuesTable(const nlohmann::ordered_json& page, bool wide);
/// What the users of each queue have used, in device-hours.
Table UsersTable(const nlohmann::ordered_json& page);
Table GangsTable(const nlohmann::ordered_json& page, bool wide);
Table PodsTable(const nlohmann::ordered_json& page, bool wide);
Table NodesTable(const nlohmann::ordered_json& page, bool wide);
/// The numbers of nodes and devices by model.
Table ModelsTable(const nlohmann::ordered_json& page);
/// The page of `berth why`, as a paragraph and lines of facts.
std::string WhyText(const nlohmann::ordered_json& why, bool wide);

/// The value under `key`; null where there is none.
const nlohmann::ordered_json& At(const nlohmann::ordered_json& json, std::string_view key);

/// The text or number under `key` on one line, safe for a terminal; empty if there is none.
std::string TextOf(const nlohmann::ordered_json& json, std::string_view key);

}  // namespace berth::server
