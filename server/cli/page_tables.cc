#include "server/cli/page_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include "kube/quantity.h"
#include "kube/terminal.h"

namespace berth::server {

using Json = nlohmann::ordered_json;

const Json& At(const Json& json, std::string_view key) {
  static const Json kNothing;
  if (!json.is_object()) return kNothing;
  const auto it = json.find(std::string(key));
  return it == json.end() ? kNothing : *it;
}

std::string TextOf(const Json& json, std::string_view key) {
  const Json& value = At(json, key);
  if (value.is_string()) return kube::Printable(value.get_ref<const std::string&>());
  return value.is_null() || value.is_structured() ? std::string() : value.dump();
}

namespace {

std::int64_t Number(const Json& json, std::string_view key) {
  const Json& value = At(json, key);
  return value.is_number() ? value.get<std::int64_t>() : 0;
}

std::string Joined(const Json& list) {
  std::string out;
  for (const Json& item : list.is_array() ? list : Json::array()) {
    if (!item.is_string()) continue;
    if (!out.empty()) out += ',';
    out += item.get<std::string>();
  }
  return out;
}

std::string CountsText(const Json& pending) {
  std::int64_t total = 0;
  std::string reasons;
  if (!pending.is_object()) return {};
  for (const auto& [reason, count] : pending.items()) {
    if (!count.is_number()) continue;
    total += count.get<std::int64_t>();
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason, count.dump());
  }
  return total == 0 ? "0" : fmt::format("{} ({})", total, reasons);
}

/// Device-seconds as hours; `-`: not told.
std::string HoursText(const Json& seconds, const std::string& resource) {
  if (!At(seconds, resource).is_number()) return "-";
  return fmt::format("{:.1f}", static_cast<double>(Number(seconds, resource)) / 3600.0);
}

/// Devices with one decimal; `-`: not told.
std::string DevicesText(const Json& devices, const std::string& resource) {
  const Json& amount = At(devices, resource);
  return amount.is_number() ? fmt::format("{:.1f}", amount.get<double>()) : "-";
}

bool HasPast(const Json& items) {
  return items.is_array() && std::ranges::any_of(items, [](const Json& queue) {
           return At(queue, "pastUse").is_object();
         });
}

/// The resources of a queue that get a row, if it uses, is promised, limited to or entitled to
/// some: devices; with `wide` all, and those that it has used.
std::set<std::string> ResourcesOf(const Json& queue, bool wide) {
  std::set<std::string> names;
  for (const char* key : {"quota", "limit", "used", "fairShare", "deviceSeconds"}) {
    const Json& amounts = At(queue, key);
    if (!amounts.is_object() || (!wide && std::string_view(key) == "deviceSeconds")) continue;
    for (const auto& [name, amount] : amounts.items()) {
      const bool nothing = std::string_view(key) == "fairShare" && amount == "0";
      if (!nothing && (wide || name.find('/') != std::string::npos)) names.insert(name);
    }
  }
  return names;
}

/// `nvidia.com/gpu (h100, non-preemptible)`
std::string PartName(const Json& part) {
  std::string which = TextOf(part, "flavor");
  if (At(part, "nonPreemptible") == true)
    which += which.empty() ? "non-preemptible" : ", non-preemptible";
  return fmt::format("{} ({})", TextOf(part, "resource"), which);
}

/// Pages name a domain by its path, `block-1/rack-a`; the column shows only the last part.
std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Topology levels in the order of the pages, without the level of the node itself.
std::vector<std::string> LevelsOf(const Json& page) {
  std::vector<std::string> levels;
  for (const Json& node : At(page, "items")) {
    const Json& domains = At(node, "domains");
    if (!domains.is_object()) continue;
    for (const auto& [level, path] : domains.items()) {
      const bool host = LastPart(TextOf(domains, level)) == TextOf(node, "name");
      if (!host && std::ranges::find(levels, level) == levels.end()) levels.push_back(level);
    }
  }
  return levels;
}

/// For a pod or gang: its reason, and how many of its pods are refused for which reason.
std::string ReasonText(const Json& item) {
  std::string text = TextOf(item, "phase") == "Refused" ? "" : TextOf(item, "reason");
  const std::string refused = CountsText(At(item, "refusals"));
  if (refused.empty() || refused == "0") return text.empty() ? TextOf(item, "reason") : text;
  return text + (text.empty() ? "" : "; ") + "refused: " + refused;
}

std::string AmountsText(const Json& amounts) {
  std::string text;
  if (!amounts.is_object()) return text;
  for (const auto& [name, amount] : amounts.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", TextOf(amounts, name), name);
  }
  return text;
}

/// A node's status, in kubectl's words.
std::string StatusOf(const Json& node) {
  std::string status = At(node, "ready") == false ? "NotReady" : "";
  if (At(node, "unschedulable") == true) {
    status += std::string(status.empty() ? "" : ",") + "SchedulingDisabled";
  }
  return status.empty() ? "Schedulable" : status;
}

/// The free amount of a node's device, as a quantity; empty: unknown.
std::string FreeOf(const std::string& name, const Json& device) {
  const auto used = kube::ParseFor(name, TextOf(device, "used"));
  const auto total = kube::ParseFor(name, TextOf(device, "allocatable"));
  return used && total ? kube::Format(name, std::max<std::int64_t>(0, *total - *used)) : "";
}

/// `3h12m`; empty where the time is missing.
std::string WaitText(const Json& item) {
  return At(item, "waitingSeconds").is_number() ? HumanDuration(Number(item, "waitingSeconds"))
                                                : std::string();
}

/// The first in line, "research/train 2h", and its position if others come before it.
std::string NextText(const Json& next) {
  if (!next.is_object()) return {};
  const std::string position = TextOf(next, "position");
  return (position == "1" ? "" : "#" + position + " ") + TextOf(next, "namespace") + "/" +
         TextOf(next, "name") + " " + WaitText(next);
}

/// When the first in line is expected to start, in UTC.
std::string StartText(const Json& next) {
  if (!next.is_object()) return {};
  const std::string start = TextOf(next, "estimatedStart");
  return start.empty() ? "unknown" : start;
}

/// A queue of the page, and how many of those on the page are above it.
struct InTree {
  const Json* queue;
  int depth;
};

/// Each queue before its children, otherwise in the order of the page.
std::vector<InTree> TreeOf(const Json& items) {
  std::map<std::string, std::vector<const Json*>> children;
  std::set<std::string> names;
  for (const Json& queue : items) names.insert(TextOf(queue, "name"));
  for (const Json& queue : items) {
    const std::string parent = TextOf(queue, "parent");
    children[names.contains(parent) ? parent : ""].push_back(&queue);
  }
  std::vector<InTree> tree;
  std::vector<InTree> next;  // the last one comes first
  const auto push = [&](const std::string& parent, int depth) {
    const std::vector<const Json*> below = std::exchange(children[parent], {});
    for (const Json* queue : below | std::views::reverse) next.push_back({queue, depth});
  };
  push("", 0);
  while (!next.empty()) {
    const InTree at = next.back();
    next.pop_back();
    tree.push_back(at);
    push(TextOf(*at.queue, "name"), at.depth + 1);
  }
  return tree;
}

/// Indented by its depth in the tree.
std::string QueueName(const Json& queue, int depth) {
  return std::string(2 * static_cast<std::size_t>(depth), ' ') + TextOf(queue, "name");
}

/// A queue has a row for each of its resources. What is said once of a queue is in the `first`.
/// `past`: there is a column PAST-USE.
std::vector<std::string> RowOfQueue(const Json& queue, int depth, const std::string& resource,
                                    bool first, bool past, bool wide) {
  const auto amount = [&](const char* key, const char* otherwise) {
    const std::string text = TextOf(At(queue, key), resource);
    return text.empty() ? std::string(otherwise) : text;
  };
  std::vector<std::string> row{QueueName(queue, depth),
                               resource,
                               amount("used", "0"),
                               amount("quota", "-"),
                               amount("borrowed", "0"),
                               amount("lent", "0"),
                               amount("fairShare", "-"),
                               amount("limit", "-"),
                               first ? CountsText(At(queue, "pending")) : "",
                               first ? CountsText(At(queue, "refused")) : ""};
  if (past) row.push_back(DevicesText(At(queue, "pastUse"), resource));
  if (wide) {
    row.insert(row.end(),
               {first ? NextText(At(queue, "next")) : "", first ? StartText(At(queue, "next")) : "",
                HoursText(At(queue, "deviceSeconds"), resource), Joined(At(queue, "namespaces"))});
  }
  return row;
}

/// Amounts of a queue that are about a part of a resource: a flavor, or work that is not
/// preemptible.
std::vector<std::string> RowOfPart(const Json& queue, int depth, const Json& part, bool wide) {
  const auto amount = [&](const char* key) {
    const std::string text = TextOf(part, key);
    return text.empty() ? std::string("-") : text;
  };
  std::vector<std::string> row{QueueName(queue, depth),
                               PartName(part),
                               amount("used"),
                               amount("quota"),
                               "-",
                               "-",
                               "-",
                               amount("limit"),
                               "",
                               ""};
  if (wide) row.insert(row.end(), 4, std::string());
  return row;
}

}  // namespace

Table QueuesTable(const Json& page, bool wide) {
  std::vector<std::string> header{"NAME", "RESOURCE",   "USED",  "QUOTA",   "BORROWED",
                                  "LENT", "FAIR-SHARE", "LIMIT", "PENDING", "REFUSED"};
  const bool past = wide && HasPast(At(page, "items"));
  if (past) header.emplace_back("PAST-USE");
  if (wide) header.insert(header.end(), {"NEXT", "ESTIMATED-START", "HOURS", "NAMESPACES"});
  Table table(std::move(header));
  for (const auto& [item, depth] : TreeOf(At(page, "items"))) {
    const Json& queue = *item;
    auto names = ResourcesOf(queue, wide);
    if (names.empty()) names.insert("");
    bool first = true;
    for (const std::string& name : names) {
      table.Add(RowOfQueue(queue, depth, name, std::exchange(first, false), past, wide));
    }
    const Json& parts = At(queue, "parts");
    for (const Json& part : parts.is_array() ? parts : Json::array()) {
      const bool device = TextOf(part, "resource").find('/') != std::string::npos;
      if (device || wide) table.Add(RowOfPart(queue, depth, part, wide));
    }
  }
  return table;
}

Table UsersTable(const Json& page) {
  Table table({"QUEUE", "USER", "RESOURCE", "HOURS"});
  for (const Json& queue : At(page, "items")) {
    const Json& users = At(queue, "users");
    for (const Json& user : users.is_array() ? users : Json::array()) {
      const Json seconds = At(user, "deviceSeconds");
      const Json used = seconds.is_object() ? seconds : Json::object();
      for (const auto& [name, amount] : used.items()) {
        table.Add({TextOf(queue, "name"), TextOf(user, "user"), kube::Printable(name),
                   HoursText(used, name)});
      }
    }
  }
  return table;
}

Table GangsTable(const Json& page, bool wide) {
  std::vector<std::string> header{"NAMESPACE", "NAME",  "QUEUE", "PHASE",
                                  "MEMBERS",   "BOUND", "WAIT",  "REASON"};
  if (wide) header.insert(header.end(), {"SINCE", "MIN", "NODES", "MESSAGE"});
  Table table(std::move(header));
  for (const Json& gang : At(page, "items")) {
    const std::string phase = TextOf(gang, "phase");
    std::vector<std::string> row{TextOf(gang, "namespace"),
                                 TextOf(gang, "name"),
                                 TextOf(gang, "queue"),
                                 phase,
                                 TextOf(gang, "members") + "/" + TextOf(gang, "size"),
                                 TextOf(gang, "bound"),
                                 phase == "Started" ? "" : WaitText(gang),
                                 ReasonText(gang)};
    if (wide) {
      row.insert(row.end(), {TextOf(gang, "since"), TextOf(gang, "minMember"),
                             Joined(At(gang, "nodes")), TextOf(gang, "message")});
    }
    table.Add(std::move(row));
  }
  return table;
}

Table PodsTable(const Json& page, bool wide) {
  std::vector<std::string> header{"NAMESPACE", "NAME",  "QUEUE", "POSITION", "GANG",
                                  "DEVICES",   "PHASE", "WAIT",  "REASON"};
  if (wide) header.insert(header.end(), {"PRIORITY", "SINCE", "MESSAGE"});
  Table table(std::move(header));
  for (const Json& pod : At(page, "items")) {
    const std::string position = TextOf(pod, "position");
    std::vector<std::string> row{TextOf(pod, "namespace"), TextOf(pod, "name"),
                                 TextOf(pod, "queue"),     position == "0" ? "" : position,
                                 TextOf(pod, "gang"),      AmountsText(At(pod, "devices")),
                                 TextOf(pod, "phase"),     WaitText(pod),
                                 TextOf(pod, "reason")};
    if (wide) {
      row.insert(row.end(),
                 {TextOf(pod, "priority"), TextOf(pod, "since"), TextOf(pod, "message")});
    }
    table.Add(std::move(row));
  }
  return table;
}

Table NodesTable(const Json& page, bool wide) {
  const auto levels = LevelsOf(page);
  std::vector<std::string> header{"NAME", "STATUS"};
  for (const std::string& level : levels) {
    header.push_back(level);
    for (char& c : header.back())
      c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  header.insert(header.end(), {"MODEL", "RESOURCE", "USED", "FREE", "TOTAL", "PODS", "REASON"});
  if (wide) header.insert(header.end(), {"TAINTS", "POD-NAMES"});
  Table table(std::move(header));
  for (const Json& node : At(page, "items")) {
    std::vector<std::string> start{TextOf(node, "name"), StatusOf(node)};
    for (const std::string& level : levels)
      start.push_back(LastPart(TextOf(At(node, "domains"), level)));
    start.push_back(TextOf(node, "model"));
    std::string names;
    for (const Json& pod : At(node, "pods")) {
      names += (names.empty() ? "" : ",") + TextOf(pod, "pod");
      if (At(pod, "planned") == true) names += "(planned)";
    }
    const Json devices = At(node, "devices").is_object() ? At(node, "devices") : Json::object();
    const auto add = [&](const std::string& name, const Json& device) {
      auto row = start;
      row.insert(row.end(),
                 {name, TextOf(device, "used"), FreeOf(name, device), TextOf(device, "allocatable"),
                  std::to_string(At(node, "pods").size()), TextOf(node, "reason")});
      if (wide) row.insert(row.end(), {Joined(At(node, "taints")), names});
      table.Add(std::move(row));
    };
    for (const auto& [name, device] : devices.items()) add(name, device);
    if (devices.empty()) add("", Json());
  }
  return table;
}

Table ModelsTable(const Json& page) {
  struct Row {
    std::int64_t nodes = 0;
    std::int64_t out = 0;  ///< Nodes that accept no new pods.
    std::int64_t used = 0;
    std::int64_t free = 0;  ///< On the other nodes.
    std::int64_t total = 0;
  };
  std::map<std::pair<std::string, std::string>, Row> rows;
  for (const Json& node : At(page, "items")) {
    const Json devices = At(node, "devices").is_object() ? At(node, "devices") : Json::object();
    const bool takes = StatusOf(node) == "Schedulable";
    for (const auto& [name, device] : devices.items()) {
      const auto amount = [&](const std::string& text) {
        return kube::ParseFor(name, text).value_or(0);
      };
      Row& row = rows[{TextOf(node, "model"), name}];
      ++row.nodes;
      row.out += takes ? 0 : 1;
      row.used += amount(TextOf(device, "used"));
      row.free += takes ? amount(FreeOf(name, device)) : 0;
      row.total += amount(TextOf(device, "allocatable"));
    }
  }
  Table table({"MODEL", "RESOURCE", "NODES", "OUT", "USED", "FREE", "TOTAL"});
  for (const auto& [key, row] : rows) {
    const auto& [model, resource] = key;
    table.Add({model, resource, std::to_string(row.nodes), std::to_string(row.out),
               kube::Format(resource, row.used), kube::Format(resource, row.free),
               kube::Format(resource, row.total)});
  }
  return table;
}

std::string WhyText(const Json& why, bool wide) {
  const std::string reason = TextOf(why, "reason");
  const std::string pod = TextOf(why, "pod");
  const std::string subject =
      pod.empty() ? fmt::format("gang {}/{}", TextOf(why, "namespace"), TextOf(why, "workload"))
                  : pod;
  std::string out =
      fmt::format("{}: {}{}\n", subject, TextOf(why, "phase"),
                  reason.empty() || reason == TextOf(why, "phase") ? "" : ", " + reason);
  if (const std::string message = TextOf(why, "message"); !message.empty()) {
    out += fmt::format("\n  {}\n", message);
  }
  out += '\n';
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) out += PadTo(name, 11) + value + "\n";
  };
  line("Queue:", TextOf(why, "queue"));
  line("User:", TextOf(why, "user"));
  if (At(why, "gang") == true) {
    const std::string size = TextOf(why, "size");
    const std::string refused = CountsText(At(why, "refusals"));
    line("Gang:", fmt::format("{}: {}{} members exist, {} bound, it starts with {}{}",
                              TextOf(why, "workload"), TextOf(why, "members"),
                              size.empty() ? "" : " of " + size, TextOf(why, "bound"),
                              TextOf(why, "minMember"),
                              refused.empty() || refused == "0" ? "" : "; refused: " + refused));
  }
  line("Node:", TextOf(why, "node"));
  if (TextOf(why, "phase") != "Bound" && TextOf(why, "phase") != "Unmanaged") {
    const std::string since = TextOf(why, "since");
    line("Waiting:", WaitText(why) + (since.empty() ? "" : ", since " + since));
  }
  if (wide) {
    line("Scheduler:", TextOf(why, "scheduler"));
    line("Want:", TextOf(why, "want"));
    line("Have:", TextOf(why, "have"));
    line("Subject:", TextOf(why, "subject"));
  }
  return out;
}

}  // namespace berth::server
