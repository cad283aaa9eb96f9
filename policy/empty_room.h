// What nodes could hold if they were empty: whether work that waits could ever be placed.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
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

/// Counts, by shape, how many pods the nodes that match would hold if they were empty, together or
/// in the best domain, up to the largest number that a workload has asked for. TakeChanged names
/// the workloads whose answer has changed. A node that changes is looked at once for each shape,
/// however many workloads have it.
class EmptyRoom {
 public:
  /// Only nodes of this flavor, or of none (kNoFlavor); absent: any. Ignored unless the shape asks
  /// for devices.
  using OfFlavor = std::optional<cluster::FlavorId>;
  /// What is to hold all the pods.
  struct Place {
    OfFlavor flavor{};
    std::string level{};  ///< Nodes of one domain of this level, or with one value of this label;
                          ///< empty: all nodes together.
    auto operator<=>(const Place&) const = default;
  };

  /// Both must outlive it.
  EmptyRoom(const cluster::Store& store, FitCache& fit) : store_(&store), fit_(&fit) {}

  /// About so many workloads will ask: makes the table large enough for them.
  void Expect(std::size_t workloads) { asked_.reserve(workloads); }
  /// Whether they could hold `pods` pods of this shape, as nodes are now. `asker` is remembered
  /// until Forget.
  /// REQUIRES: Store::Refresh() since the last change, if `place` has a level.
  EmptyFit Ask(const std::shared_ptr<const cluster::PodShape>& shape, std::ptrdiff_t pods,
               Place place, const cluster::Workload& asker);
  /// What `pods` pods of this shape are charged at least (Store::DemandOn): whole-node pods, on the
  /// smallest nodes that match. `asker` is remembered until Forget.
  std::vector<cluster::Demand> LeastDemands(const std::shared_ptr<const cluster::PodShape>& shape,
                                            std::size_t pods, const cluster::Workload& asker);
  /// To be called before the workload is destroyed, and before it asks for other pods.
  void Forget(const cluster::Workload& asker);
  /// The workloads of which an answer has changed since the last call, or since they asked, each
  /// once. They stay remembered.
  std::vector<const cluster::Workload*> TakeChanged();
  /// To be called when the policy is another one: no answer is used any more, and all that is
  /// remembered of a workload goes when it is forgotten, so that no call takes long.
  void Expire() { ++term_; }

 private:
  struct Key {
    std::uint64_t term = 0;  ///< The answer's; answers of other terms are not used any more.
    const cluster::PodShape* shape = nullptr;
    Place place{};
    auto operator<=>(const Key&) const = default;
  };
  /// How many pods each domain would hold, by name; without a level all nodes are one without a
  /// name. Domains that would hold none are left out.
  using Rooms = std::map<std::string, std::ptrdiff_t, std::less<>>;
  /// A node, by its place in Store::nodes, and how many pods it would hold.
  struct Held {
    std::size_t node = 0;
    int pods = 0;
    Rooms::iterator domain{};
  };
  struct Count {
    std::shared_ptr<const cluster::PodShape> shape{};  ///< Keeps the key's address in use.
    std::vector<bool> matches{};  ///< The nodes that were looked at: the first ones.
    std::ptrdiff_t matching = 0;  ///< How many of them match.
    std::vector<Held> holds{};    ///< Of these, each that holds any; ordered by node.
    Rooms rooms{};                ///< Their sums.
    std::ptrdiff_t room = 0;      ///< The largest of `rooms`, or 0.
    /// Each with the number of pods that it asked about.
    std::set<std::pair<std::ptrdiff_t, const cluster::Workload*>> askers{};

    EmptyFit For(std::ptrdiff_t pods) const;
    /// Whether `room` may be less since: the caller must look.
    bool Exclude(std::size_t node);
  };

  Count& CountFor(const std::shared_ptr<const cluster::PodShape>& shape, std::ptrdiff_t pods,
                  Place place, const cluster::Workload& asker);
  void Include(std::size_t node, bool fits, const Place& place, Count& count) const;
  void CountUpTo(std::ptrdiff_t pods, const Place& place, Count& count);
  void LookAgain(std::span<const std::size_t> nodes, const Place& place, Count& count);
  void CatchUp();

  const cluster::Store* store_;
  FitCache* fit_;
  cluster::ChangeLog::Position seen_ = 0;  ///< The changes of nodes that `counts_` contains.
  std::uint64_t term_ = 0;                 ///< A number for each call of Expire.
  std::map<Key, Count> counts_;            ///< Of keys that some workload has asked for.
  std::unordered_map<const cluster::Workload*, std::vector<std::pair<Key, std::ptrdiff_t>>> asked_;
  std::unordered_set<const cluster::Workload*> changed_;
};

}  // namespace berth::policy
