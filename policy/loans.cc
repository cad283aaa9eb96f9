#include "policy/loans.h"

#include <algorithm>
#include <cstddef>

namespace berth::policy {
namespace {

/// The queues of one parent, in one kind of devices.
struct Level {
  std::int64_t quotas = 0;    ///< Of all of them.
  std::int64_t used = 0;      ///< The same.
  std::int64_t borrowed = 0;  ///< The same.
};

/// In one kind of devices.
class LoansOfKind {
 public:
  LoansOfKind(const FairTree& tree, std::size_t kind) : tree_(tree), kind_(kind) {
    levels_.resize(tree.queues.size() + 1);
    for (const FairQueue& queue : tree.queues) {
      Level& level = LevelOf(queue);
      // No cluster has as much as a quota may say, and the sum must not overflow.
      level.quotas += std::min(queue.quota[kind], tree.pool[kind]);
      level.used += queue.used[kind];
      level.borrowed += BorrowedBy(queue);
    }
    lent_.resize(tree.queues.size(), -1);
  }

  std::int64_t BorrowedBy(const FairQueue& queue) const {
    if (!tree_.borrowing && queue.quota[kind_] == 0) return 0;
    return std::max<std::int64_t>(0, queue.used[kind_] - queue.quota[kind_]);
  }

  std::int64_t LentBy(std::size_t index) {
    if (!tree_.borrowing) return 0;
    if (lent_[index] >= 0) return lent_[index];
    const FairQueue& queue = tree_.queues[index];
    const Level& level = LevelOf(queue);
    std::int64_t beyond = level.borrowed - BorrowedBy(queue);
    std::int64_t shared = tree_.pool[kind_];
    if (queue.parent >= 0) {
      const auto parent = static_cast<std::size_t>(queue.parent);
      const FairQueue& above = tree_.queues[parent];
      shared = std::max(above.quota[kind_], above.used[kind_]);
      beyond += above.used[kind_] - level.used + LentBy(parent);
    }
    const std::int64_t unpromised = std::max<std::int64_t>(0, shared - level.quotas);
    const std::int64_t most = queue.quota[kind_] - std::max(queue.used[kind_], queue.kept[kind_]);
    lent_[index] = std::max<std::int64_t>(0, std::min(most, beyond - unpromised));
    return lent_[index];
  }

 private:
  Level& LevelOf(const FairQueue& queue) {
    return levels_[static_cast<std::size_t>(queue.parent + 1)];
  }

  const FairTree& tree_;
  std::size_t kind_;
  std::vector<Level> levels_;       ///< Of the top, then below each queue.
  std::vector<std::int64_t> lent_;  ///< -1: not known yet.
};

}  // namespace

std::vector<Loan> LoansOf(const FairTree& tree) {
  std::vector<Loan> loans(tree.queues.size());
  for (std::size_t kind = 0; kind < tree.pool.size(); ++kind) {
    LoansOfKind of(tree, kind);
    for (std::size_t i = 0; i < loans.size(); ++i) {
      loans[i].borrowed.push_back(of.BorrowedBy(tree.queues[i]));
      loans[i].lent.push_back(of.LentBy(i));
    }
  }
  return loans;
}

}  // namespace berth::policy
