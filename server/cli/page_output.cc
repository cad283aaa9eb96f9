#include "server/cli/page_output.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/cli/json_path.h"
#include "server/cli/page_tables.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kJsonPathPrefix = "jsonpath=";

/// For example `gang` for `gangs`.
std::string_view Singular(Question question) {
  const std::string_view name = NameOf(question);
  return name.substr(0, name.size() - 1);
}

/// Numbers are compared as numbers; missing values come first.
std::expected<void, std::string> Sort(Json& page, const std::string& by) {
  const auto path = JsonPath::Parse(by);
  if (!path) return std::unexpected("--sort-by: " + path.error());
  if (!At(page, "items").is_array() || page["items"].empty()) return {};
  std::vector<std::pair<Json, Json>> items;
  bool any = false;
  for (Json& item : page["items"]) {
    const auto found = path->Find(item);
    any |= !found.empty();
    Json key = found.empty() ? Json() : *found.front();
    items.emplace_back(std::move(key), std::move(item));
  }
  if (!any) return std::unexpected(fmt::format("--sort-by: no item has {:?}", by));
  std::ranges::stable_sort(items, [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < items.size(); ++i) page["items"][i] = std::move(items[i].second);
  return {};
}

std::string Names(Question question, const Json& page) {
  if (question == Question::kWhy) {
    const std::string pod = TextOf(page, "pod");
    return pod.empty() ? "gang/" + TextOf(page, "workload") + "\n"
                       : "pod/" + pod.substr(pod.find('/') + 1) + "\n";
  }
  std::string names;
  for (const Json& item : At(page, "items")) {
    names += fmt::format("{}/{}\n", Singular(question), TextOf(item, "name"));
  }
  return names;
}

Table TableOf(Question question, const Json& page, const Output& output) {
  const bool wide = output.format == OutputFormat::kWide;
  switch (question) {
    case Question::kGangs:
      return GangsTable(page, wide);
    case Question::kPods:
      return PodsTable(page, wide);
    case Question::kNodes:
      return output.by_model ? ModelsTable(page) : NodesTable(page, wide);
    default:
      return output.by_user ? UsersTable(page) : QueuesTable(page, wide);
  }
}

}  // namespace

std::string_view NameOf(Question question) {
  static constexpr std::string_view kNames[] = {"why", "queues", "gangs", "pods", "nodes"};
  return kNames[static_cast<std::size_t>(question)];
}

std::expected<void, std::string> ParseFormat(std::string_view text, Output& output) {
  static constexpr std::string_view kFormats[] = {"table", "wide", "json", "yaml", "name"};
  if (text.starts_with('=')) text.remove_prefix(1);  // -o=json
  if (text.starts_with(kJsonPathPrefix)) {
    output.format = OutputFormat::kJsonPath;
    output.path = text.substr(kJsonPathPrefix.size());
    const auto tried = FillTemplate(output.path, Json());
    if (!tried) return std::unexpected("jsonpath: " + tried.error());
    return {};
  }
  const auto* const found = std::ranges::find(kFormats, text);
  if (found == std::end(kFormats)) {
    return std::unexpected(
        fmt::format("{:?} is not one of table, wide, json, yaml, name, jsonpath=TEMPLATE", text));
  }
  output.format = static_cast<OutputFormat>(found - std::begin(kFormats));
  return {};
}

std::expected<void, std::string> Select(Question question, const Wanted& wanted, Json& page) {
  if (!At(page, "items").is_array()) return {};
  std::vector<bool> found(wanted.names.size(), false);
  Json items = Json::array();
  for (Json& item : page["items"]) {
    const std::string name = TextOf(item, "name");
    const std::string full = TextOf(item, "namespace") + "/" + name;
    bool named = wanted.names.empty();
    for (std::size_t i = 0; i < wanted.names.size(); ++i) {
      if (wanted.names[i] != name && wanted.names[i] != full) continue;
      named = true;
      found[i] = true;
    }
    const bool in_queue = wanted.queue.empty() || TextOf(item, "queue") == wanted.queue;
    if (named && in_queue) items.push_back(std::move(item));
  }
  page["items"] = std::move(items);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) continue;
    return std::unexpected(fmt::format("{} {:?} not found", Singular(question), wanted.names[i]));
  }
  return {};
}

std::expected<std::string, std::string> Print(Question question, Json page, const Output& output) {
  if (!output.sort_by.empty()) {
    if (auto sorted = Sort(page, output.sort_by); !sorted) return std::unexpected(sorted.error());
  }
  switch (output.format) {
    case OutputFormat::kJson:
      return page.dump(2) + "\n";
    case OutputFormat::kYaml:
      return ToYaml(page);
    case OutputFormat::kName:
      return Names(question, page);
    case OutputFormat::kJsonPath:
      return FillTemplate(output.path, page);
    default:
      break;
  }
  if (question == Question::kWhy) return WhyText(page, output.format == OutputFormat::kWide);
  const Table table = TableOf(question, page, output);
  return table.empty() ? fmt::format("No {} found.\n", output.by_user ? "users" : NameOf(question))
                       : table.Render(output.headers);
}

}  // namespace berth::server
