#include "cluster/dialects.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "cluster/string_map.h"
#include "cluster/users.h"
#include "kube/time.h"

namespace berth::cluster {
namespace {

using kube::DialectKind;

// --- The names ---------------------------------------------------------------------------------

constexpr std::string_view kBerthSize = "berth.dev/gang-size";
constexpr std::string_view kBerthMin = "berth.dev/gang-min-member";
constexpr std::string_view kPreemptible = "berth.dev/preemptible";
constexpr std::string_view kClass = "berth.dev/class";
constexpr std::string_view kExpectedDuration = "berth.dev/expected-duration";
constexpr std::string_view kOldMin = "pod-group.scheduling.sigs.k8s.io/min-available";

/// How a pod names its gang. Other projects' keys are read as label and as annotation, because most
/// of them changed from one to the other.
struct GangSpelling {
  Dialect dialect;
  std::string_view name;
  std::string_view min{};              ///< Where the pod itself may say the minimum,
  std::string_view size{};             ///< and the size.
  std::optional<DialectKind> group{};  ///< The name is one of such an object.
};

constexpr std::array<GangSpelling, 9> kGangSpellings{{
    {.dialect = Dialect::kKueue,
     .name = "kueue.x-k8s.io/pod-group-name",
     .size = "kueue.x-k8s.io/pod-group-total-count"},
    {.dialect = Dialect::kVolcano,
     .name = "scheduling.k8s.io/group-name",
     .min = "scheduling.volcano.sh/group-min-member",
     .group = DialectKind::kVolcanoPodGroup},
    {.dialect = Dialect::kVolcano,
     .name = "scheduling.volcano.sh/group-name",
     .min = "scheduling.volcano.sh/group-min-member",
     .group = DialectKind::kVolcanoPodGroup},
    {.dialect = Dialect::kKai,
     .name = "pod-group-name",
     .min = "kai.scheduler/batch-min-member",
     .group = DialectKind::kKaiPodGroup},
    {.dialect = Dialect::kKoordinator,
     .name = "gang.scheduling.koordinator.sh/name",
     .min = "gang.scheduling.koordinator.sh/min-available",
     .size = "gang.scheduling.koordinator.sh/total-number"},
    {.dialect = Dialect::kKoordinator,
     .name = "pod-group.scheduling.sigs.k8s.io",
     .min = "gang.scheduling.koordinator.sh/min-available",
     .size = "gang.scheduling.koordinator.sh/total-number",
     .group = DialectKind::kSigsPodGroup},
    {.dialect = Dialect::kSchedulerPlugins,
     .name = "scheduling.x-k8s.io/pod-group",
     .min = kOldMin,
     .group = DialectKind::kSchedulerPluginsPodGroup},
    {.dialect = Dialect::kSchedulerPlugins,
     .name = "pod-group.scheduling.sigs.k8s.io",
     .min = kOldMin,
     .group = DialectKind::kSigsPodGroup},
    {.dialect = Dialect::kSchedulerPlugins,
     .name = "pod-group.scheduling.sigs.k8s.io/name",
     .min = kOldMin},
}};

struct QueueSpelling {
  Dialect dialect;
  std::string_view name;
};

constexpr std::array<QueueSpelling, 6> kQueueSpellings{{
    {Dialect::kKueue, "kueue.x-k8s.io/queue-name"},
    {Dialect::kVolcano, "scheduling.volcano.sh/queue-name"},
    {Dialect::kVolcano, "volcano.sh/queue-name"},
    {Dialect::kKai, "kai.scheduler/queue"},
    {Dialect::kKai, "runai/queue"},
    {Dialect::kKoordinator, "quota.scheduling.koordinator.sh/name"},
}};

struct TopologySpelling {
  Dialect dialect;
  std::string_view required;
  std::string_view preferred;
};

constexpr std::array<TopologySpelling, 2> kTopologySpellings{{
    {Dialect::kKueue, "kueue.x-k8s.io/podset-required-topology",
     "kueue.x-k8s.io/podset-preferred-topology"},
    {Dialect::kKai, "kai.scheduler/topology-required-placement",
     "kai.scheduler/topology-preferred-placement"},
}};
constexpr std::string_view kKoordinatorTopology =
    "gang.scheduling.koordinator.sh/network-topology-spec";

/// The first of these keys that holds a number decides. StatefulSet's key comes last: other
/// controllers create StatefulSets.
constexpr std::array<std::string_view, 7> kIndexKeys{
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "kueue.x-k8s.io/pod-group-pod-index",
    "gang.scheduling.koordinator.sh/network-topology-index",
    "volcano.sh/task-index",
    "apps.kubernetes.io/pod-index"};

// --- Reading -----------------------------------------------------------------------------------

/// A label, else an annotation; null: neither, or empty.
const std::string* FindEither(const kube::Pod& pod, std::string_view key) {
  const std::string* text = Find(pod.meta.labels, key);
  return text != nullptr ? text : Find(pod.meta.annotations, key);
}

bool InRange(std::int64_t count) { return count >= 1 && count <= kMaxGangSize; }

/// What Kubernetes accepts as the name of an object or the value of a label. Annotations and the
/// objects of other projects may hold any text.
bool IsName(std::string_view text) {
  constexpr std::size_t kMaxBytes = 253;
  return text.size() <= kMaxBytes && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

/// The name of a level, or the key of a node label: a name, optionally with a prefix.
bool IsLevel(std::string_view text) {
  const auto slash = text.find('/');
  return slash == std::string_view::npos
             ? IsName(text)
             : IsName(text.substr(0, slash)) && IsName(text.substr(slash + 1));
}

std::string NotAName(std::string_view what) {
  return fmt::format("{} must consist of at most 253 letters, digits, \"-\", \"_\" and \".\".",
                     what);
}

std::string OutOfRange(std::string_view what) {
  return fmt::format("{} must be a whole number from 1 to {}.", what, kMaxGangSize);
}

/// Reads one pod. The first error found is the one that is reported.
class ClaimReader {
 public:
  ClaimReader(const kube::Pod& pod, const DialectContext& context) : pod_(pod), context_(context) {}

  PodClaims Read() {
    ReadGang();
    ReadQueue();
    ReadTopology();
    ReadWholeNode();
    ReadEviction();
    ReadDuration();
    ReadRank();
    return std::move(claims_);
  }

 private:
  bool Reads(Dialect dialect) const { return IsRead(context_.switches, dialect); }

  void Fault(std::string text) {
    if (claims_.error.empty()) claims_.error = std::move(text);
  }

  /// A count in 1..kMaxGangSize from a label or annotation; otherwise 0, with an error if there is
  /// a value.
  int Count(std::string_view key, bool annotation_only) {
    if (key.empty()) return 0;
    const auto& annotations = pod_.meta.annotations;
    auto it = annotations.find(key);
    const std::string* text = it == annotations.end() ? nullptr : &it->second;
    if (const auto label = pod_.meta.labels.find(key);
        !annotation_only && label != pod_.meta.labels.end()) {
      text = &label->second;
    }
    if (text == nullptr) return 0;
    int value = 0;
    const char* end = text->data() + text->size();
    const auto [stop, code] = std::from_chars(text->data(), end, value);
    if (code == std::errc{} && stop == end && InRange(value)) return value;
    Fault(OutOfRange(key));
    return 0;
  }

  const kube::DialectObject* Object(DialectKind kind, const std::string& name) const {
    return context_.objects == nullptr ? nullptr : context_.objects->Find(kind, pod_.meta.ns, name);
  }

  void ReadGang() {
    const std::string* own = Find(pod_.meta.labels, "berth.dev/gang");
    if (own != nullptr) {
      NameGang(Dialect::kBerth, "berth.dev/gang", *own);
    } else if (Reads(Dialect::kInTree) && !pod_.scheduling_group.empty()) {
      constexpr GangSpelling kInTree{.dialect = Dialect::kInTree,
                                     .name = "schedulingGroup",
                                     .group = DialectKind::kInTreePodGroup};
      if (NameGang(kInTree.dialect, kInTree.name, pod_.scheduling_group)) {
        claims_.in_tree = true;
        ReadGroup(kInTree);
      }
    } else {
      for (const GangSpelling& spelling : kGangSpellings) {
        const std::string* name = FindEither(pod_, spelling.name);
        if (name == nullptr || !Reads(spelling.dialect)) continue;
        if (NameGang(spelling.dialect, spelling.name, *name)) ReadGroup(spelling);
        break;
      }
    }
    if (!claims_.gang.name.empty()) CheckNumbers();
  }

  /// False, with an error: the value of `key` is no name, and the pod is in no gang.
  bool NameGang(Dialect dialect, std::string_view key, const std::string& name) {
    if (!IsName(name)) {
      Fault(NotAName(key));
      return false;
    }
    claims_.gang.name = name;
    claims_.gang_from = dialect;
    return true;
  }

  /// The numbers of a gang that another dialect names: from its group object, else from the pod.
  void ReadGroup(const GangSpelling& spelling) {
    GangClaim& gang = claims_.gang;
    claims_.by_group = spelling.group.has_value();
    if (spelling.group) group_ = Object(*spelling.group, gang.name);
    if (group_ == nullptr) {
      gang.min_member = Count(spelling.min, false);
      gang.size = Count(spelling.size, false);
      missing_ = spelling.group;
      needs_ = spelling.min.empty() ? spelling.size : spelling.min;
      named_by_ = spelling.name;
      return;
    }
    if (!group_->gang) {  // policy `basic`: its pods are independent
      gang = {};
      claims_.in_tree = false;
      claims_.by_group = false;
      return;
    }
    if (!group_->invalid.empty()) {
      Fault(fmt::format("PodGroup {}: {}.", gang.name, group_->invalid));
    } else if (InRange(group_->min_member)) {
      gang.min_member = group_->min_member;
    } else if (Find(pod_.meta.annotations, kBerthMin) == nullptr) {
      const bool in_tree = claims_.in_tree;
      Fault(OutOfRange(fmt::format("PodGroup {}: spec.{}", gang.name,
                                   in_tree ? "schedulingPolicy.gang.minCount" : "minMember")));
    }
    if (InRange(group_->size)) gang.size = group_->size;
  }

  /// Berth's own annotations win, whichever dialect named the gang. Then a missing number gets the
  /// other one's value.
  void CheckNumbers() {
    GangClaim& gang = claims_.gang;
    if (const int size = Count(kBerthSize, true); size != 0) gang.size = size;
    if (const int min = Count(kBerthMin, true); min != 0) gang.min_member = min;
    if (gang.size == 0 && gang.min_member == 0 && claims_.error.empty()) {
      if (missing_) {
        claims_.waits_for = fmt::format(
            "PodGroup {} ({}) does not exist, and the pod does not say how many "
            "members its gang needs.",
            gang.name, kube::ResourceOf(*missing_).group);
      } else if (claims_.gang_from == Dialect::kBerth) {
        Fault("berth.dev/gang needs the annotation berth.dev/gang-size.");
      } else {
        Fault(fmt::format("{} needs {} to say the minimum.", named_by_, needs_));
      }
    }
    if (gang.size != 0 && gang.min_member > gang.size) {
      Fault("The gang's minimum is larger than its size.");
    }
    if (gang.size == 0) gang.size = gang.min_member;
    if (gang.min_member == 0) gang.min_member = gang.size;
  }

  void ReadQueue() {
    if (const std::string* own = Find(pod_.meta.labels, "berth.dev/queue")) {
      NameQueue("berth.dev/queue", *own);
      return;
    }
    // The pod's own value, then that of its group, dialect by dialect.
    for (std::size_t i = 0; i < kDialects; ++i) {
      const auto dialect = static_cast<Dialect>(i);
      if (!Reads(dialect)) continue;
      for (const QueueSpelling& spelling : kQueueSpellings) {
        const std::string* name =
            spelling.dialect == dialect ? FindEither(pod_, spelling.name) : nullptr;
        if (name != nullptr && TakeQueue(dialect, spelling.name, *name)) return;
      }
      if (group_ != nullptr && claims_.gang_from == dialect &&
          TakeQueue(dialect, "The queue of its PodGroup", group_->queue)) {
        return;
      }
    }
  }

  void NameQueue(std::string_view key, const std::string& name) {
    if (!IsName(name)) return Fault(NotAName(key));
    claims_.queue = name;
  }

  /// False: there is no queue name in it.
  bool TakeQueue(Dialect dialect, std::string_view key, const std::string& name) {
    // Volcano's webhook writes `default` where no queue was chosen.
    if (name.empty() || (dialect == Dialect::kVolcano && name == "default")) return false;
    claims_.queue_from = dialect;
    // A LocalQueue leads to its ClusterQueue; without one the name is a queue of the policy.
    const auto* local =
        dialect == Dialect::kKueue ? Object(DialectKind::kKueueLocalQueue, name) : nullptr;
    if (local != nullptr && !local->queue.empty()) {
      NameQueue("The clusterQueue of its LocalQueue", local->queue);
    } else {
      NameQueue(key, name);
    }
    return true;
  }

  void ReadTopology() {
    const auto annotation = [&](std::string_view key) {
      const std::string* text = Find(pod_.meta.annotations, key);
      return text == nullptr ? std::string() : *text;
    };
    if (Topology(annotation("berth.dev/topology-required"),
                 annotation("berth.dev/topology-preferred"))) {
      return;
    }
    for (std::size_t i = 0; i < kDialects; ++i) {
      const auto dialect = static_cast<Dialect>(i);
      if (!Reads(dialect)) continue;
      for (const TopologySpelling& spelling : kTopologySpellings) {
        if (spelling.dialect == dialect &&
            Topology(annotation(spelling.required), annotation(spelling.preferred))) {
          return;
        }
      }
      if (dialect == Dialect::kKoordinator && GatherStrategy(annotation(kKoordinatorTopology))) {
        return;
      }
      if (group_ != nullptr && claims_.gang_from == dialect && GroupTopology(*group_)) return;
    }
  }

  bool Topology(std::string required, std::string preferred) {
    if (!IsLevel(required) || !IsLevel(preferred)) {
      Fault("A topology must be the name of a level of the policy, or the key of a node label.");
      return true;
    }
    claims_.topology_required = std::move(required);
    claims_.topology_preferred = std::move(preferred);
    return !claims_.topology_required.empty() || !claims_.topology_preferred.empty();
  }

  bool GatherStrategy(const std::string& json) {
    if (json.empty()) return false;
    auto levels = kube::ReadGatherStrategy(json);
    if (!levels) {
      Fault(fmt::format("{}: {}.", kKoordinatorTopology, levels.error()));
      return true;
    }
    return Topology(std::move(levels->required), std::move(levels->preferred));
  }

  bool GroupTopology(const kube::DialectObject& group) {
    std::string required = group.topology_required;
    std::string preferred = group.topology_preferred;
    if (group.tier_required > 0) {
      required = LevelOfTier(group.tier_required);
      if (required.empty()) {
        Fault(fmt::format("PodGroup {}: no level of the policy is HyperNode tier {}.", group.name,
                          group.tier_required));
      }
    }
    if (group.tier_preferred > 0) preferred = LevelOfTier(group.tier_preferred);
    return Topology(std::move(required), std::move(preferred));
  }

  /// Tier 1 is the level just above the host; the host is the policy's last level.
  std::string LevelOfTier(std::int32_t tier) const {
    const auto levels = static_cast<std::int64_t>(context_.levels.size());
    if (tier >= levels) return {};
    return context_.levels[static_cast<std::size_t>(levels - 1 - tier)].name;
  }

  void ReadWholeNode() {
    const auto it = pod_.meta.annotations.find("berth.dev/whole-node");
    const std::string whole = it == pod_.meta.annotations.end() ? std::string() : it->second;
    claims_.whole_node = whole == "true";
    if (!whole.empty() && whole != "true" && whole != "false") {
      Fault("berth.dev/whole-node must be \"true\" or \"false\".");
    }
  }

  void ReadEviction() {
    if (const std::string* text = FindEither(pod_, kPreemptible)) {
      claims_.preemptible = *text == "true";
      if (*text != "true" && *text != "false") {
        Fault("berth.dev/preemptible must be \"true\" or \"false\".");
      }
    }
    if (const std::string* name = Find(pod_.meta.labels, kClass)) claims_.workload_class = *name;
  }

  void ReadDuration() {
    const std::string* text = Find(pod_.meta.annotations, kExpectedDuration);
    if (text == nullptr) return;
    const auto duration = kube::ParseDuration(*text);
    // It is a hint: one that cannot be read is none, and the pod runs all the same.
    if (!duration || duration->count() <= 0) return;
    claims_.expected_duration = std::chrono::ceil<std::chrono::milliseconds>(*duration).count();
  }

  void ReadRank() {
    for (const auto key : kIndexKeys) {
      const std::string* text = FindEither(pod_, key);
      if (text == nullptr) continue;
      if (const auto index = ReadIndex(*text)) {
        claims_.rank = index;
        return;
      }
    }
  }

  const kube::Pod& pod_;
  const DialectContext& context_;
  PodClaims claims_;
  const kube::DialectObject* group_ = nullptr;  ///< Of the gang, if it exists.
  std::optional<DialectKind> missing_;          ///< It names a group object that does not exist.
  std::string_view named_by_;
  std::string_view needs_;
};

}  // namespace

std::optional<int> ReadIndex(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || stop != end || value < 0) return std::nullopt;
  return value;
}

bool ReadsKind(const config::Dialects& dialects, DialectKind kind) {
  if (kind == DialectKind::kInTreePodGroup) return IsRead(dialects, Dialect::kInTree);
  if (kind == DialectKind::kKueueLocalQueue) return IsRead(dialects, Dialect::kKueue);
  return std::ranges::any_of(kGangSpellings, [&](const GangSpelling& spelling) {
    return spelling.group == kind && IsRead(dialects, spelling.dialect);
  });
}

std::vector<std::string_view> KeysOfClaims() {
  std::vector<std::string_view> keys{"berth.dev/gang",
                                     "berth.dev/queue",
                                     kBerthSize,
                                     kBerthMin,
                                     kKoordinatorTopology,
                                     "berth.dev/whole-node",
                                     kPreemptible,
                                     kClass,
                                     kUserLabel,
                                     kExpectedDuration,
                                     "berth.dev/topology-required",
                                     "berth.dev/topology-preferred"};
  for (const GangSpelling& spelling : kGangSpellings) {
    for (const auto key : {spelling.name, spelling.min, spelling.size}) {
      if (!key.empty()) keys.push_back(key);
    }
  }
  for (const QueueSpelling& spelling : kQueueSpellings) keys.push_back(spelling.name);
  for (const TopologySpelling& spelling : kTopologySpellings) {
    keys.push_back(spelling.required);
    keys.push_back(spelling.preferred);
  }
  keys.insert(keys.end(), kIndexKeys.begin(), kIndexKeys.end());
  return keys;
}

PodClaims ReadClaims(const kube::Pod& pod, const DialectContext& context) {
  return ClaimReader(pod, context).Read();
}

}  // namespace berth::cluster
