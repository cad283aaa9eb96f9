// What queues have borrowed and lent.
#pragma once

#include <vector>

#include "policy/fair_share.h"

namespace berth::policy {

/// Use and quota, compared.
struct Loan {
  DeviceAmounts borrowed;  ///< Use above quota.
  DeviceAmounts lent;      ///< Of its quota, what it does not use and others have.
};
/// By queue, in the order of the tree.
///
/// lent = min(quota - used, quota - kept, B - U), and at least 0. B is what is used beyond quotas
/// beside the queue: borrowed by its siblings, used by its parent's own work, and lent by its
/// parent. U is what its parent has beyond the quotas of its children (at the top: the pool beyond
/// those quotas), because that is used first. Where several siblings lend, each of the numbers is
/// the most that it can be.
/// Without borrowing nothing is lent, and only queues with a quota can have borrowed: up to a limit
/// above it.
std::vector<Loan> LoansOf(const FairTree& tree);

}  // namespace berth::policy
