#include "sim/world/watch_bytes.h"

#include <simdjson.h>

#include "config/decode.h"
#include "kube/decode.h"
#include "kube/watch_event.h"
#include "sim/world/object_json.h"

namespace berth::sim {
namespace {

constexpr std::size_t kLimit = std::size_t{8} << 20U;  // of a line and an item, as in production

nlohmann::json Json(const Change& change) {
  if (change.pod != nullptr) return PodJson(*change.pod);
  if (change.node != nullptr) return NodeJson(*change.node);
  if (change.budget != nullptr) return BudgetJson(*change.budget);
  return PolicyJson(*change.policy);
}

std::string DifferenceOf(const Change& a, const Change& b) {
  if (a.deleted != b.deleted) return "type";
  if (a.pod != nullptr) return Difference(*a.pod, *b.pod);
  if (a.node != nullptr) return Difference(*a.node, *b.node);
  if (a.budget != nullptr) return Difference(*a.budget, *b.budget);
  return *a.policy == *b.policy ? "" : "policy.yaml";
}

std::expected<Change, std::string> DecodePolicyMap(simdjson::dom::element object) {
  const auto map = kube::DecodeConfigMap(object);
  if (!map) return std::unexpected(map.error().ToString());
  const auto yaml = map->data.find("policy.yaml");
  if (yaml == map->data.end()) return std::unexpected("no policy.yaml");
  auto policy = config::DecodePolicy(yaml->second, "policy");
  if (!policy) return std::unexpected(policy.error().front().ToString());
  return Change{.key = "policy",
                .policy = std::make_shared<const config::PolicyConfiguration>(*std::move(policy))};
}

std::expected<Change, std::string> Decode(Kind kind, simdjson::dom::element object) {
  if (kind == Kind::kPolicy) return DecodePolicyMap(object);
  if (kind == Kind::kNode) {
    auto node = kube::DecodeNode(object);
    if (!node) return std::unexpected(node.error().ToString());
    std::string key = node->meta.name;
    return Change{.key = std::move(key),
                  .node = std::make_shared<const kube::Node>(*std::move(node))};
  }
  if (kind == Kind::kBudget) {
    auto budget = kube::DecodePodDisruptionBudget(object);
    if (!budget) return std::unexpected(budget.error().ToString());
    std::string key = budget->meta.uid;
    return Change{.key = std::move(key),
                  .budget = std::make_shared<const kube::PodDisruptionBudget>(*std::move(budget))};
  }
  auto pod = kube::DecodePod(object);
  if (!pod) return std::unexpected(pod.error().ToString());
  std::string key = pod->meta.uid;
  return Change{.key = std::move(key), .pod = std::make_shared<const kube::Pod>(*std::move(pod))};
}

}  // namespace

/// False: the object cannot be decoded.
bool WatchBytes::Read(simdjson::dom::element object) {
  auto change = Decode(kind_, object);
  has_ = change.has_value();
  if (change) {
    read_ = *std::move(change);
  } else {
    error_ = std::move(change.error());
  }
  return has_;
}

std::expected<Change, std::string> WatchBytes::Arrived(const Change& sent, bool whole) {
  const auto fail = [&](const std::string& what) {
    return std::unexpected(fmt::format("watch of {}: {}: {}", Name(kind_), sent.key, what));
  };
  if (!whole || !std::exchange(has_, false)) return fail(error_.empty() ? "no object" : error_);
  const std::string difference = DifferenceOf(sent, read_);
  if (!difference.empty()) return fail(difference + " is not what was sent");
  return std::move(read_);
}

std::expected<Change, std::string> WatchBytes::Event(const Change& change) {
  // Send a bookmark first, as happens now and then: it must be recognised and have no effect.
  const std::string bookmark =
      R"({"type":"BOOKMARK","object":{"kind":"Bookmark","metadata":{"resourceVersion":"1"}}})"
      "\n";
  const std::string line =
      bookmark +
      Bytes({{"type", change.deleted ? "DELETED" : "MODIFIED"}, {"object", Json(change)}}) + "\n";
  const kube::PieceFunction on_line = [this](std::string_view text) {
    simdjson::dom::element json;
    if (parser_.parse(text.data(), text.size()).get(json) != simdjson::SUCCESS) return false;
    const auto event = kube::ReadWatchEvent(json);
    if (event && event->type == kube::WatchEvent::Type::kBookmark) return true;
    if (!event || !Read(event->object)) return false;
    read_.deleted = event->type == kube::WatchEvent::Type::kDelete;
    return true;
  };
  kube::LineSplitter lines(kLimit, on_line);
  // In two pieces, as packets may split it.
  const std::string_view bytes = line;
  const bool whole = lines.Feed(bytes.substr(0, line.size() / 2)) == kube::SplitResult::kContinue &&
                     lines.Feed(bytes.substr(line.size() / 2)) == kube::SplitResult::kContinue;
  return Arrived(change, whole);
}

void WatchBytes::BeginList() {
  items_.emplace(kLimit, on_item_);
  items_->Feed(R"({"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[)");
  first_ = true;
}

std::expected<Change, std::string> WatchBytes::Item(const Change& change) {
  const std::string bytes = (std::exchange(first_, false) ? "" : ",") + Bytes(Json(change));
  return Arrived(change, items_->Feed(bytes) == kube::SplitResult::kContinue);
}

std::string WatchBytes::EndList() {
  const bool fed = items_->Feed("]}\n") == kube::SplitResult::kContinue;
  return fed && items_->Complete() ? "" : fmt::format("list of {}: cut short", Name(kind_));
}

}  // namespace berth::sim
