// Volcano and KAI: trees of queues that every namespace may use.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "config/import_draft.h"
#include "config/policy_keys.h"
#include "config/scalars.h"

namespace berth::config::internal {
namespace {

/// The namespaces that name a queue as theirs, in one of these labels or annotations.
std::map<std::string, std::vector<std::string>> NamespacesByQueue(
    const std::vector<Json>& objects, std::initializer_list<std::string_view> keys) {
  std::map<std::string, std::vector<std::string>> namespaces;
  for (const Json* ns : OfKind(objects, "", "Namespace")) {
    if (!IsDnsLabel(NameOf(*ns))) continue;
    for (const char* map : {"/metadata/annotations", "/metadata/labels"}) {
      const Json& entries = At(*ns, map);
      for (const std::string_view key : keys) {
        if (!entries.is_object() || !entries.contains(key) || !entries[key].is_string()) continue;
        auto& users = namespaces[entries[key].get<std::string>()];
        if (std::ranges::find(users, NameOf(*ns)) == users.end()) users.push_back(NameOf(*ns));
      }
    }
  }
  return namespaces;
}

/// The namespaces that name the queue as theirs, and all others.
std::vector<std::string> OpenTo(std::vector<std::string> own) {
  own.emplace_back("*");
  return own;
}

void Amounts(const Json& from, const std::string& what, kube::ResourceList& into,
             std::vector<std::string>& notes) {
  if (!from.is_object()) return;
  for (const auto& [resource, quantity] : from.items()) {
    ImportDraft::AddQuantity(into, resource, quantity, what, notes);
  }
}

/// Sets parents by the new names; a parent that is not among the queues stays a plain group.
void LinkParents(const std::vector<const Json*>& objects, const char* pointer, ImportDraft& draft) {
  std::map<std::string, std::string> names;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    names.emplace(NameOf(*objects[i]), draft.queues()[i].queue.name);
  }
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const std::string parent = TextAt(*objects[i], pointer);
    const auto it = names.find(parent);
    // Volcano's `root` is the root of every tree.
    if (parent.empty() || (it == names.end() && parent == "root")) continue;
    std::vector<std::string>& notes = draft.queues()[i].notes;
    draft.queues()[i].queue.parent = it != names.end() ? it->second : draft.NameFor(parent, notes);
  }
}

/// What is guaranteed is never lent.
void KeepGuarantee(const Json& guarantee, ImportedQueue& imported) {
  kube::ResourceList kept;
  std::vector<std::string> ignored;  // noted for the quota already
  Amounts(guarantee, "guarantee", kept, ignored);
  for (const auto& [resource, quota] : imported.queue.quota) {
    const auto amount = kept.find(resource);
    if (amount == kept.end()) continue;
    imported.queue.lending_limit[resource] = std::max<std::int64_t>(0, quota - amount->second);
  }
}

}  // namespace

void ImportVolcano(const std::vector<Json>& objects, ImportDraft& draft) {
  const auto queues = OfKind(objects, "scheduling.volcano.sh", "Queue");
  const auto own = NamespacesByQueue(objects, {"scheduling.volcano.sh/queue-name"});
  for (const Json* object : queues) {
    std::vector<std::string> notes{fmt::format("Queue {}", NameOf(*object))};
    std::string name = draft.NameFor(NameOf(*object), notes);
    ImportedQueue& imported = draft.Add(std::move(name));
    imported.notes = std::move(notes);
    Queue& queue = imported.queue;
    const Json& deserved = At(*object, "/spec/deserved");
    const Json& guarantee = At(*object, "/spec/guarantee/resource");
    Amounts(deserved.empty() ? guarantee : deserved, "quota", queue.quota, imported.notes);
    KeepGuarantee(guarantee, imported);
    Amounts(At(*object, "/spec/capability"), "capability", queue.limit, imported.notes);
    const Json& weight = At(*object, "/spec/weight");
    if (const auto value = NumberIn(weight)) {
      if (*value >= 1 && *value <= 1000) {
        queue.weight = std::llround(*value * 1000);
      } else {
        imported.notes.push_back(fmt::format("weight {}: 1 to 1000 are possible", weight.dump()));
      }
    }
    if (At(*object, "/spec/reclaimable") == Json(false)) {
      imported.notes.push_back("reclaimable: false: not carried over");
    }
    ImportDraft::TakePriority(At(*object, "/spec/priority"), imported);
    for (const char* key : {"affinity", "extendClusters", "dequeueStrategy"}) {
      const Json& value = At(*object, fmt::format("/spec/{}", key).c_str());
      if (!value.empty() && value != Json(0)) {
        imported.notes.push_back(fmt::format("{}: not carried over", key));
      }
    }
    if (const auto state = TextAt(*object, "/status/state");
        state == "Closed" || state == "Closing") {
      queue.hold = Hold::kHold;
    } else if (!state.empty() && state != "Open") {
      imported.notes.push_back(
          fmt::format("state {}: not carried over, this queue is open", state));
    }
    const auto users = own.find(NameOf(*object));
    queue.namespaces = OpenTo(users == own.end() ? std::vector<std::string>{} : users->second);
  }
  LinkParents(queues, "/spec/parent", draft);
}

namespace {

/// KAI's units: GPUs, thousandths of a CPU, megabytes.
struct KaiResource {
  const char* key;
  const char* resource;
  double factor;  ///< To canonical units.
};
constexpr std::array<KaiResource, 3> kKaiResources{{
    {"gpu", "nvidia.com/gpu", 1000},
    {"cpu", "cpu", 1},
    {"memory", "memory", 1e6},
}};

void TakeKaiAmount(const Json& value, const KaiResource& kind, const std::string& what,
                   kube::ResourceList& into, std::vector<std::string>& notes) {
  const auto number = NumberIn(value);
  if (!number) return;
  const double amount = *number;
  if (amount < 0) {
    // An unlimited limit is left out; an unlimited quota does not exist in Berth.
    if (what == "quota") {
      notes.push_back(fmt::format("quota of {}: unlimited in KAI, none here", kind.resource));
    }
    return;
  }
  const double canonical = amount * kind.factor;
  if (!(canonical < 9e18)) {
    notes.push_back(fmt::format("{} of {}: too large", what, kind.resource));
    return;
  }
  ImportDraft::AddAmount(into, kind.resource, std::llround(canonical), what, notes);
}

void TakeKaiResources(const Json& object, ImportedQueue& imported) {
  for (const KaiResource& kind : kKaiResources) {
    const Json& resource = At(object, fmt::format("/spec/resources/{}", kind.key).c_str());
    if (resource.is_null()) continue;
    TakeKaiAmount(At(resource, "/quota"), kind, "quota", imported.queue.quota, imported.notes);
    TakeKaiAmount(At(resource, "/limit"), kind, "limit", imported.queue.limit, imported.notes);
    TakeKaiAmount(At(resource, "/lendingLimit"), kind, "lendingLimit", imported.queue.lending_limit,
                  imported.notes);
    const Json& weight = At(resource, "/overQuotaWeight");
    const auto number = NumberIn(weight);
    if (!number) continue;
    const double value = *number;
    if (std::string_view(kind.key) != "gpu") {
      if (value != 1) {
        imported.notes.push_back(
            fmt::format("overQuotaWeight of {}: that of GPUs is the weight", kind.resource));
      }
    } else if (value == 0 || (value >= 0.001 && value <= 1000)) {
      imported.queue.weight = std::llround(value * 1000);
    } else {
      imported.notes.push_back(
          fmt::format("overQuotaWeight {}: 0, or 0.001 to 1000, is possible", weight.dump()));
      if (value > 0 && value < 0.001) imported.queue.weight = 1;
    }
  }
}

/// preemptMinRuntime of a queue that takes pods. False: there is none, or none that a policy may
/// have.
bool TakeKaiRunTime(const Json& object, ImportedQueue& imported) {
  const auto time = ParseDuration(TextAt(object, "/spec/preemptMinRuntime"));
  if (!time || *time > keys::kLongestRunTime) return false;
  imported.queue.min_run_time = *time;
  return true;
}

}  // namespace

void ImportKai(const std::vector<Json>& objects, ImportDraft& draft) {
  const auto queues = OfKind(objects, "scheduling.run.ai", "Queue");
  const auto own = NamespacesByQueue(objects, {"kai.scheduler/queue", "runai/queue"});
  std::set<std::string> parents;
  for (const Json* object : queues) parents.insert(TextAt(*object, "/spec/parentQueue"));
  for (const Json* object : queues) {
    const std::string shown = TextAt(*object, "/spec/displayName");
    std::vector<std::string> notes{
        fmt::format("Queue {}{}", NameOf(*object), shown.empty() ? "" : " (" + shown + ")")};
    std::string name = draft.NameFor(NameOf(*object), notes);
    ImportedQueue& imported = draft.Add(std::move(name));
    imported.notes = std::move(notes);
    TakeKaiResources(*object, imported);
    const bool leaf = !parents.contains(NameOf(*object));  // only leaves take pods
    const bool timed = leaf && TakeKaiRunTime(*object, imported);
    ImportDraft::TakePriority(At(*object, "/spec/priority"), imported);
    for (const std::string_view key : {"preemptMinRuntime", "reclaimMinRuntime"}) {
      const Json& value = At(*object, fmt::format("/spec/{}", key).c_str());
      if (!value.is_null() && !(timed && key == "preemptMinRuntime")) {
        imported.notes.push_back(fmt::format("{} {}: not carried over", key, value.dump()));
      }
    }
    if (!leaf) continue;
    const auto users = own.find(NameOf(*object));
    imported.queue.namespaces =
        OpenTo(users == own.end() ? std::vector<std::string>{} : users->second);
  }
  LinkParents(queues, "/spec/parentQueue", draft);
  for (const Json* topology : OfKind(objects, "kai.scheduler", "Topology")) {
    std::vector<std::string> labels;
    for (const Json& level : At(*topology, "/spec/levels")) {
      labels.push_back(TextAt(level, "/nodeLabel"));
    }
    draft.SetLevels(NameOf(*topology), labels);
  }
}

}  // namespace berth::config::internal
