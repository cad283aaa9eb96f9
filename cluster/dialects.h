// What a pod says about its gang, queue and topology, in any of the spellings that Berth reads: a
// pure function of the pod and of the PodGroup or LocalQueue that it names. Every name is in the
// tables of dialects.cc; docs/dialects.md is the page for users.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "config/policy_configuration.h"
#include "kube/dialect_objects.h"
#include "kube/objects.h"

namespace berth::cluster {

/// In order of precedence: for each fact (gang, queue, topology) the first dialect that gives it
/// counts.
enum class Dialect : std::uint8_t {
  kBerth,
  kInTree,
  kKueue,
  kVolcano,
  kKai,
  kKoordinator,
  kSchedulerPlugins,
};
inline constexpr std::size_t kDialects = 7;

/// The name in the policy's key `dialects`; `berth` for Berth's own spelling.
std::string_view Name(Dialect dialect);

/// Whether `dialect` is read. Berth's own always is; `auto` counts as on (see PeersAlive).
bool IsRead(const config::Dialects& dialects, Dialect dialect);

/// Whether objects of `kind` are read at all.
bool ReadsKind(const config::Dialects& dialects, kube::DialectKind kind);

/// The live PodGroups and LocalQueues.
class DialectObjects {
 public:
  /// False: nothing that is read from the object has changed.
  bool Upsert(kube::DialectObject object);
  /// The object that was there; none: it was not known.
  std::optional<kube::DialectObject> Remove(std::string_view uid);
  /// Null: there is no such object.
  const kube::DialectObject* Find(kube::DialectKind kind, std::string_view ns,
                                  std::string_view name) const;
  const std::map<std::string, kube::DialectObject, std::less<>>& by_uid() const { return by_uid_; }

 private:
  using Key = std::tuple<kube::DialectKind, std::string, std::string>;

  std::map<std::string, kube::DialectObject, std::less<>> by_uid_;
  std::map<Key, std::string> uids_;  ///< If a name came twice, the later one.
};

/// Counts the projects' own controllers, for switches that are `auto`. A project is alive while a
/// pod of its scheduler or controller that has not ended is in the project's own namespace
/// (kControllers in dialect_switches.cc). These namespaces belong to the admin, so no tenant can
/// switch a dialect off.
class PeersAlive {
 public:
  /// A pod came (+1) or went (-1). True: a project became alive or ceased to be.
  bool Count(const kube::Pod& pod, int change);
  /// `dialects` with every `auto` resolved.
  config::Dialects Decide(config::Dialects dialects) const;

 private:
  std::array<int, kDialects> pods_{};
};

/// What can be read besides the pod itself.
struct DialectContext {
  config::Dialects switches{};
  std::span<const config::TopologyLevel> levels{};  ///< From the policy, for Volcano's tiers.
  const DialectObjects* objects = nullptr;          ///< Null: there are none.
};

/// What a pod, or the group object that it names, says of its gang.
struct GangClaim {
  std::string name;  ///< Unique in the namespace; empty: no gang.
  int size = 0;      ///< 0: not given.
  int min_member = 0;
  bool operator==(const GangClaim&) const = default;
};

/// What a pod claims, in whichever dialects.
struct PodClaims {
  GangClaim gang;
  std::string queue;  ///< Empty: not given.
  std::string topology_required;
  std::string topology_preferred;
  bool whole_node = false;
  std::optional<bool> preemptible;     ///< Whether it may be evicted for other work.
  std::string workload_class;          ///< Empty: not given.
  kube::Millis expected_duration = 0;  ///< 0: not given.
  std::optional<int> rank;             ///< Job completion index or replica index.
  /// The gang is an in-tree PodGroup: kube-scheduler itself starts it all or nothing.
  bool in_tree = false;
  /// The gang is that of a group object, existing or not: the object may change it at any time.
  bool by_group = false;
  Dialect gang_from = Dialect::kBerth;   ///< Which dialect named the gang.
  Dialect queue_from = Dialect::kBerth;  ///< Which dialect named the queue.
  std::string error;      ///< Not empty: a value is out of range; the pod is refused alone.
  std::string waits_for;  ///< Not empty: the group object that it names does not exist (yet).
};

/// The largest gang that is accepted; this bounds every loop over members.
inline constexpr int kMaxGangSize = 65536;

/// Parses an index in a label or annotation: a whole number from 0; none: it is not one.
std::optional<int> ReadIndex(std::string_view text);

/// Every label and annotation of a pod that ReadClaims reads, for the decoder's test.
std::vector<std::string_view> KeysOfClaims();

/// Reads the dialects that `context` switches on. A claim that cannot be taken is in `error`; the
/// function itself does not fail.
PodClaims ReadClaims(const kube::Pod& pod, const DialectContext& context);

}  // namespace berth::cluster
