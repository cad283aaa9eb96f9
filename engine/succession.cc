#include "engine/succession.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

namespace berth::engine {

using cluster::PodInfo;

namespace {

/// What it costs at most to tell a pod, counted in nodes looked at, as Options::pass_budget is.
constexpr std::int64_t kOnePod = 100;

/// Tells at most `most` entries after the key `after`. False: some are left.
template <typename Map, typename Tell>
bool TellSome(const Map& map, std::optional<typename Map::key_type>& after, std::size_t& most,
              const Tell& tell) {
  auto at = after ? map.upper_bound(*after) : map.begin();
  const auto from = at;
  for (; at != map.end() && most > 0; ++at, --most) tell(at->second);
  if (at != from) after = std::prev(at)->first;
  return at == map.end();
}

Options WithRoom(Options options, std::size_t pods) {
  options.expected_pods = std::max(options.expected_pods, pods);
  return options;
}

}  // namespace

Succession::Succession(const Engine& from, Options options)
    : from_(from),
      most_(static_cast<std::size_t>(std::max<std::int64_t>(1, options.pass_budget / kOnePod))),
      heir_(std::make_unique<Engine>(from.store().policy(),
                                     WithRoom(std::move(options), from.store().pod_list().size()))),
      pods_left_(from.store().pod_list().size()) {}

/// In the order of a new process where it matters for the cost: pods last, when it is known what
/// they refer to.
bool Succession::GoOn(TimePoint now) {
  const cluster::Store& known = from_.store();
  std::size_t most = most_;
  const bool told = TellSome(known.namespaces(), namespace_, most,
                             [&](const kube::Namespace& ns) { heir_->OnNamespace(ns); }) &&
                    TellSome(known.disruption_budgets(), budget_, most,
                             [&](const auto& budget) { heir_->OnDisruptionBudget(budget); }) &&
                    TellSome(known.dialect_objects().by_uid(), dialect_object_, most,
                             [&](const auto& object) { heir_->OnDialectObject(object, now); }) &&
                    TellNodes(most, now) && TellPods(most, now) &&
                    TellSome(known.ended(), ended_, most,
                             [&](const auto& pod) { heir_->OnPod(pod.object, now); });
  return !told;
}

bool Succession::TellNodes(std::size_t& most, TimePoint now) {
  const auto& nodes = from_.store().nodes();
  for (; nodes_ < nodes.size() && most > 0; --most) {
    const cluster::NodeInfo& node = *nodes[nodes_++];
    if (node.present) heir_->OnNode(node.object, now);
  }
  return nodes_ == nodes.size();
}

/// From the end of the list, since the last pod takes the place of one that is deleted: so none is
/// passed over, and one that is told twice changes nothing. A part comes in the order in which the
/// API server lists pods, so that a small cluster is told as to a new process.
bool Succession::TellPods(std::size_t& most, TimePoint now) {
  const auto list = from_.store().pod_list();
  pods_left_ = std::min(pods_left_, list.size());
  const std::size_t part = std::min(most, pods_left_);
  most -= part;
  pods_left_ -= part;
  const auto from = list.begin() + static_cast<std::ptrdiff_t>(pods_left_);
  std::vector<const PodInfo*> pods(from, from + static_cast<std::ptrdiff_t>(part));
  std::ranges::sort(pods, {}, [](const PodInfo* pod) {
    const kube::ObjectMeta& meta = pod->object.meta;
    return std::tie(meta.ns, meta.name, meta.uid);
  });
  for (const PodInfo* pod : pods) heir_->OnPod(pod->object, now);
  return pods_left_ == 0;
}

// --- Between the parts ---------------------------------------------------------------------------

void Succession::OnNode(const kube::Node& node, TimePoint now) { heir_->OnNode(node, now); }

void Succession::OnNodeDeleted(std::string_view name, TimePoint now) {
  heir_->OnNodeDeleted(name, now);
}

void Succession::OnPod(const kube::Pod& pod, TimePoint now) { heir_->OnPod(pod, now); }

void Succession::OnPodDeleted(std::string_view uid, TimePoint now) {
  heir_->OnPodDeleted(uid, now);
}

void Succession::OnNamespace(const kube::Namespace& ns) { heir_->OnNamespace(ns); }

void Succession::OnNamespaceDeleted(std::string_view name) { heir_->OnNamespaceDeleted(name); }

void Succession::OnDisruptionBudget(const kube::PodDisruptionBudget& budget) {
  heir_->OnDisruptionBudget(budget);
}

void Succession::OnDisruptionBudgetDeleted(std::string_view uid) {
  heir_->OnDisruptionBudgetDeleted(uid);
}

void Succession::OnDialectObject(const kube::DialectObject& object, TimePoint now) {
  heir_->OnDialectObject(object, now);
}

void Succession::OnDialectObjectDeleted(std::string_view uid, TimePoint now) {
  heir_->OnDialectObjectDeleted(uid, now);
}

void Succession::OnPolicy(const config::PolicyConfiguration& policy, TimePoint now) {
  heir_->OnPolicy(policy, now);
}

}  // namespace berth::engine
