#include "policy/fair_share.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "policy/queue_order.h"

namespace berth::policy {
namespace {

constexpr int kNobody = -1;

/// How a node stands among its siblings, with its next step counted. The less comes first.
struct Rank {
  Standing standing;
  std::int64_t part = 0;  ///< Within quota: how much of it, in billionths.
  int name = 0;           ///< Its place among all names.

  bool operator<(const Rank& other) const {
    if (standing < other.standing) return true;
    if (other.standing < standing) return false;
    return std::pair(part, name) < std::pair(other.part, other.name);
  }
};

/// A queue; or the work of one that has queues below it; or what is above all queues.
struct Node {
  int parent = kNobody;
  DeviceAmounts quota, limit, kept;
  std::int64_t weight = 1000;
  std::int64_t priority = 0;
  DeviceAmounts amount;  ///< What it has so far.
  /// Of weight 0: what quotas cover of it. Of a kind that they do not cover it has only what comes
  /// with a kind that they do.
  DeviceAmounts covered{};
  /// Of weight 0, without queues below it: beyond its quota it has what that of its parent covers.
  bool by_parent = false;
  DeviceAmounts unearned;  ///< Of `amount`, that.
  /// Of what it keeps, the part that neither it nor a queue below it uses or keeps; and the same of
  /// all queues below it.
  DeviceAmounts idle, idle_below;
  std::unique_ptr<WholeJobs> jobs;  ///< Null: it has none of its own.
  std::vector<int> heap;            ///< Children that have a next step; the best one on top.
  int leaf = kNobody;  ///< Whose step is the next one of the node; kNobody: there is none.
  Rank rank;
};

class Sharing {
 public:
  explicit Sharing(const FairTree& tree);
  std::vector<Entitlement> Run();

 private:
  std::size_t kinds() const { return tree_->pool.size(); }
  Node& node(int index) { return nodes_[static_cast<std::size_t>(index)]; }
  Node& AddNode(int parent);
  void AddQueues();
  void CapByQuota(Node& node, const FairQueue& queue);
  void AddJobs();
  DeviceAmounts MostOf(int index);
  static bool IsBeyond(const Node& node, std::size_t kind, std::int64_t step) {
    return node.by_parent && node.covered[kind] > 0 && node.amount[kind] + step > node.quota[kind];
  }
  static bool IsCovered(const Node& node, const DeviceAmounts& step);
  void RankNode(Node& node);
  bool Worse(int a, int b) { return node(b).rank < node(a).rank; }
  void FindLeaf(Node& node);
  void Rise(int leaf);
  bool Fits(int leaf);
  bool FitsKept(int leaf, std::size_t kind, std::int64_t step);
  void Take(int leaf);
  DeviceAmounts CountIdle(Node& node, const DeviceAmounts& below);

  const FairTree* tree_;
  std::vector<Node> nodes_;         ///< The top, then the queues of the tree, then their own work.
  std::vector<int> bottom_up_;      ///< Each node after those below it.
  std::vector<bool> has_children_;  ///< By queue of the tree.
  bool keeps_ = false;              ///< Some queue keeps something.
};

Node& Sharing::AddNode(int parent) {
  Node& node = nodes_.emplace_back();
  node.parent = parent;
  node.quota.resize(kinds());
  node.limit.resize(kinds(), kNoLimit);
  node.amount.resize(kinds());
  node.unearned.resize(kinds());
  node.kept.resize(kinds());
  node.idle.resize(kinds());
  node.idle_below.resize(kinds());
  return node;
}

Sharing::Sharing(const FairTree& tree) : tree_(&tree) {
  nodes_.reserve(1 + 2 * tree.queues.size());
  Node& top = AddNode(kNobody);
  top.limit = tree.pool;
  AddQueues();
  AddJobs();
  std::vector<int> next{0};
  std::vector<std::vector<int>> children(nodes_.size());
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    children[static_cast<std::size_t>(nodes_[i].parent)].push_back(static_cast<int>(i));
  }
  while (!next.empty()) {
    const int at = next.back();
    next.pop_back();
    bottom_up_.push_back(at);
    const auto& below = children[static_cast<std::size_t>(at)];
    next.insert(next.end(), below.begin(), below.end());
  }
  std::ranges::reverse(bottom_up_);
  for (const int index : bottom_up_) {
    Node& above = node(node(index).parent == kNobody ? 0 : node(index).parent);
    if (keeps_) {
      const DeviceAmounts idle = CountIdle(node(index), DeviceAmounts(kinds()));
      for (std::size_t kind = 0; index != 0 && kind < kinds(); ++kind) {
        above.idle_below[kind] += idle[kind] + node(index).idle_below[kind];
      }
    }
    std::ranges::make_heap(node(index).heap, [this](int a, int b) { return Worse(a, b); });
    FindLeaf(node(index));
    if (index != 0 && node(index).leaf != kNobody) above.heap.push_back(index);
  }
}

void Sharing::AddQueues() {
  const auto& queues = tree_->queues;
  has_children_.resize(queues.size());
  for (const FairQueue& queue : queues) {
    if (queue.parent != kNobody) has_children_[static_cast<std::size_t>(queue.parent)] = true;
  }
  std::vector<std::size_t> by_name(queues.size());
  for (std::size_t i = 0; i < queues.size(); ++i) by_name[i] = i;
  std::ranges::sort(by_name, {}, [&](std::size_t i) { return std::pair(queues[i].name, i); });
  for (const FairQueue& queue : queues) {
    Node& node = AddNode(queue.parent + 1);
    node.quota = queue.quota;
    node.limit = queue.limit;
    node.kept = queue.kept;
    node.weight = queue.weight;
    node.priority = queue.priority;
    node.by_parent = queue.weight == 0 && queue.parent != kNobody &&
                     !has_children_[static_cast<std::size_t>(&queue - queues.data())];
    for (const std::int64_t kept : node.kept) keeps_ = keeps_ || kept > 0;
    if (queue.weight == 0) CapByQuota(node, queue);
  }
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    nodes_[by_name[i] + 1].rank.name = static_cast<int>(i);
  }
}

/// A queue of weight 0 has no share above what quotas cover.
void Sharing::CapByQuota(Node& node, const FairQueue& queue) {
  node.covered = node.quota;
  for (std::size_t kind = 0; node.by_parent && kind < kinds(); ++kind) {
    node.covered[kind] = std::max(
        node.covered[kind], tree_->queues[static_cast<std::size_t>(queue.parent)].quota[kind]);
  }
  const bool any = std::ranges::any_of(node.covered, [](std::int64_t of) { return of > 0; });
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    if (any && node.covered[kind] == 0) continue;
    node.limit[kind] = std::min(node.limit[kind], node.covered[kind]);
  }
}

/// Whether the step is of a kind that quotas cover, where only these count.
bool Sharing::IsCovered(const Node& node, const DeviceAmounts& step) {
  if (node.covered.empty()) return true;
  for (std::size_t kind = 0; kind < step.size(); ++kind) {
    if (step[kind] > 0 && node.covered[kind] > 0) return true;
  }
  return false;
}

/// The most that limits let the node have.
DeviceAmounts Sharing::MostOf(int index) {
  DeviceAmounts most(kinds(), kNoLimit);
  for (; index != kNobody; index = node(index).parent) {
    for (std::size_t kind = 0; kind < kinds(); ++kind) {
      most[kind] = std::min(most[kind], node(index).limit[kind]);
    }
  }
  return most;
}

void Sharing::AddJobs() {
  DeviceAmounts most_total = tree_->total;
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    most_total[kind] = std::max(most_total[kind], tree_->pool[kind]);
  }
  for (std::size_t i = 0; i < tree_->queues.size(); ++i) {
    int index = static_cast<int>(i) + 1;
    const DeviceAmounts most = MostOf(index);
    std::vector<JobSize> jobs;
    for (const JobSize& job : tree_->queues[i].jobs) {
      if (std::ranges::equal(job.devices, most, std::ranges::less_equal())) jobs.push_back(job);
    }
    if (jobs.empty()) continue;
    if (has_children_[i]) {
      const int name = node(index).rank.name;
      Node& own = AddNode(index);
      own.rank.name = name;
      index = static_cast<int>(nodes_.size()) - 1;
    }
    node(index).jobs = std::make_unique<WholeJobs>(std::move(jobs), node(index).quota, most_total);
  }
}

/// The next step of a node is that of its best child.
void Sharing::FindLeaf(Node& at) {
  at.leaf = kNobody;
  if (at.jobs != nullptr) {
    if (at.jobs->more()) at.leaf = static_cast<int>(&at - nodes_.data());
  } else if (!at.heap.empty()) {
    at.leaf = node(at.heap.front()).leaf;
  }
  if (at.leaf != kNobody) RankNode(at);
}

void Sharing::RankNode(Node& at) {
  const DeviceAmounts& step = node(at.leaf).jobs->step();
  at.rank.standing = {.weight = at.weight, .priority = at.priority};
  at.rank.part = 0;
  BeyondQuota beyond(kinds());
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    if (step[kind] > 0) beyond.See(at.amount[kind] + step[kind], at.quota[kind]);
  }
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    if (step[kind] <= 0) continue;
    const std::int64_t amount = at.amount[kind] + step[kind];
    if (beyond.Is(amount, at.quota[kind])) {
      at.rank.standing.beyond = true;
      at.rank.standing.excess = std::max(at.rank.standing.excess,
                                         beyond.Part(amount, at.quota[kind], tree_->total[kind]));
    } else if (at.quota[kind] > 0) {
      constexpr __int128 kParts = 1'000'000'000;
      at.rank.part =
          std::max(at.rank.part, static_cast<std::int64_t>(kParts * amount / at.quota[kind]));
    }
  }
  if (at.rank.standing.beyond) at.rank.part = 0;
}

/// The step of the leaf has changed. It was the best of all, so it is on top of every heap.
void Sharing::Rise(int leaf) {
  const auto worse = [this](int a, int b) { return Worse(a, b); };
  for (int index = leaf; index != kNobody; index = node(index).parent) {
    Node& at = node(index);
    if (at.parent == kNobody) return FindLeaf(at);
    std::vector<int>& heap = node(at.parent).heap;
    std::ranges::pop_heap(heap, worse);  // by the old rank
    FindLeaf(at);
    if (at.leaf == kNobody) {
      heap.pop_back();
    } else {
      std::ranges::push_heap(heap, worse);
    }
  }
}

/// What the quotas on the path promise fits, as in QuotaView::Loans; beyond it, what others do not
/// keep.
bool Sharing::FitsKept(int leaf, std::size_t kind, std::int64_t step) {
  const Node& top = node(0);
  const std::int64_t free = top.limit[kind] - top.amount[kind];
  std::optional<std::int64_t> promised;
  std::int64_t usable = 0;  // what the queues so far keep, which the leaf may use
  for (int index = leaf; index != 0; index = node(index).parent) {
    const Node& at = node(index);
    if (at.quota[kind] > 0) {
      std::int64_t left = at.quota[kind] - at.amount[kind];
      const std::int64_t others = promised ? 0 : at.idle_below[kind] - usable;
      if (others > 0) left = std::min(left, free) - others;
      promised = std::min(promised.value_or(left), left);
    }
    usable += at.idle[kind];
  }
  const std::int64_t lent = free - (top.idle_below[kind] - usable);
  return step <= std::max(promised.value_or(lent), lent);
}

bool Sharing::Fits(int leaf) {
  const DeviceAmounts& step = node(leaf).jobs->step();
  for (int index = leaf; index != kNobody; index = node(index).parent) {
    if (!IsCovered(node(index), step)) return false;
  }
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    if (step[kind] <= 0) continue;
    for (int index = leaf; index != kNobody; index = node(index).parent) {
      const Node& at = node(index);
      if (step[kind] > at.limit[kind] - at.amount[kind]) return false;
      if (!IsBeyond(at, kind, step[kind])) continue;
      const Node& above = node(at.parent);
      if (above.amount[kind] + step[kind] > above.quota[kind]) return false;
    }
    if (keeps_ && !FitsKept(leaf, kind, step[kind])) return false;
  }
  return true;
}

/// Sets `idle` after a change; `below` is that of `idle_below`, which is counted in. Returns the
/// change of `idle`.
DeviceAmounts Sharing::CountIdle(Node& at, const DeviceAmounts& below) {
  DeviceAmounts change(kinds());
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    at.idle_below[kind] += below[kind];
    const std::int64_t idle =
        std::max<std::int64_t>(0, at.kept[kind] - at.amount[kind] - at.idle_below[kind]);
    change[kind] = idle - std::exchange(at.idle[kind], idle);
  }
  return change;
}

void Sharing::Take(int leaf) {
  const DeviceAmounts& step = node(leaf).jobs->step();
  bool by_parent = false;
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    if (!IsBeyond(node(leaf), kind, step[kind])) continue;
    node(leaf).unearned[kind] += step[kind];
    by_parent = true;
  }
  for (std::size_t kind = 0; by_parent && kind < kinds(); ++kind) {  // what comes with it
    if (node(leaf).covered[kind] == 0) node(leaf).unearned[kind] += step[kind];
  }
  DeviceAmounts below(keeps_ ? kinds() : 0);
  for (int index = leaf; index != kNobody; index = node(index).parent) {
    Node& at = node(index);
    for (std::size_t kind = 0; kind < kinds(); ++kind) at.amount[kind] += step[kind];
    if (!keeps_) continue;
    const DeviceAmounts change = CountIdle(at, below);
    for (std::size_t kind = 0; kind < kinds(); ++kind) below[kind] += change[kind];
  }
  node(leaf).jobs->Take();
}

std::vector<Entitlement> Sharing::Run() {
  while (node(0).leaf != kNobody) {
    const int leaf = node(0).leaf;
    if (Fits(leaf)) {
      Take(leaf);
    } else {
      node(leaf).jobs->PassOver();
    }
    Rise(leaf);
  }
  const auto earned = [&](const Node& at) {
    DeviceAmounts amounts(kinds());
    for (std::size_t kind = 0; kind < kinds(); ++kind) {
      amounts[kind] = std::max<std::int64_t>(0, at.amount[kind] - at.unearned[kind]);
    }
    return amounts;
  };
  const std::size_t queues = tree_->queues.size();
  std::vector<Entitlement> result(queues);
  for (std::size_t i = 0; i < queues; ++i) {
    result[i] = {.share = earned(nodes_[i + 1]), .own = DeviceAmounts(kinds())};
  }
  for (std::size_t i = queues + 1; i < nodes_.size(); ++i) {
    result[static_cast<std::size_t>(nodes_[i].parent - 1)].own = earned(nodes_[i]);
  }
  return result;
}

}  // namespace

std::vector<Entitlement> Entitlements(const FairTree& tree) { return Sharing(tree).Run(); }

std::vector<DeviceAmounts> FairShares(const FairTree& tree) {
  std::vector<DeviceAmounts> shares;
  for (Entitlement& of : Entitlements(tree)) shares.push_back(std::move(of.share));
  return shares;
}

}  // namespace berth::policy
