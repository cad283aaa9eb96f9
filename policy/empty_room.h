// What nodes could hold if they were empty: whether work that waits could ever be placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "policy/fit.h"

namespace berth::policy {

/// Whether the nodes that match could hold some pods of one shape.
enum class EmptyFit : std::uint8_t {
  kNoMatch,  ///< No node matches.
  kTooFew,
  kEnough,
};

/// Counts, by shape, how many pods the nodes that match would hold if they were empty, up to the
/// largest number that a workload has asked for. TakeChanged names the workloads whose answer has
/// changed. A node that changes is looked at once for each shape, however many workloads have it.
class EmptyRoom {
 public:
  /// Only nodes of this flavor, or of none (kNoFlavor); absent: any. Ignored unless the shape asks
  /// for devices.
  using OfFlavor = std::optional<cluster::FlavorId>;

  /// Both must outlive it.
  EmptyRoom(const cluster::Store& store, FitCache& fit) : store_(&store), fit_(&fit) {}

  /// For so many pods of this shape, as nodes are now. `asker` is remembered until Forget.
  EmptyFit Ask(const std::shared_ptr<const cluster::PodShape>& shape, std::ptrdiff_t pods,
               OfFlavor flavor, const cluster::Workload& asker);
  /// To be called before the workload is destroyed, and before it asks for other pods.
  void Forget(const cluster::Workload& asker);
  /// The workloads of which an answer has changed since the last call, or since they asked, each
  /// once. They stay remembered.
  std::vector<const cluster::Workload*> TakeChanged();
  /// Forgets all. To be called when the policy is another one.
  void Clear();

 private:
  using Key = std::pair<const cluster::PodShape*, OfFlavor>;
  /// Of nodes by their place in Store::nodes.
  struct Count {
    std::shared_ptr<const cluster::PodShape> shape{};  ///< Keeps the key's address in use.
    std::vector<bool> matches{};  ///< The nodes that were looked at: the first ones.
    std::ptrdiff_t matching = 0;  ///< How many of them match.
    std::vector<std::pair<std::size_t, int>> holds{};  ///< Of these, each that holds any; ordered.
    std::ptrdiff_t room = 0;                           ///< Their sum.
    std::set<std::pair<std::ptrdiff_t, const cluster::Workload*>> askers{};  ///< For so many pods.

    EmptyFit For(std::ptrdiff_t pods) const;
    void Exclude(std::size_t node);
  };

  void Include(std::size_t node, bool fits, OfFlavor flavor, Count& count) const;
  void CountUpTo(std::ptrdiff_t pods, OfFlavor flavor, Count& count);
  void LookAgain(std::span<const std::size_t> nodes, OfFlavor flavor, Count& count);
  void CatchUp();

  const cluster::Store* store_;
  FitCache* fit_;
  cluster::ChangeLog::Position seen_ = 0;  ///< The changes of nodes that `counts_` contains.
  std::map<Key, Count> counts_;            ///< Of those that somebody has asked for.
  std::unordered_map<const cluster::Workload*, std::vector<std::pair<Key, std::ptrdiff_t>>> asked_;
  std::unordered_set<const cluster::Workload*> changed_;
};

}  // namespace berth::policy
