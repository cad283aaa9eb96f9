#include "policy/score.h"

#include <algorithm>
#include <array>

namespace berth::policy {
namespace {

using cluster::NodeIndex;
using cluster::NodeInfo;
using cluster::PodShape;

constexpr std::int64_t kMillion = 1'000'000;

std::int64_t DemandOf(const PodShape& shape, cluster::ResourceId id) {
  const auto it = std::ranges::find(shape.demand, id, &cluster::Demand::value_type::first);
  return it == shape.demand.end() ? 0 : it->second;
}

/// a * b / c without overflow for what occurs here.
std::int64_t MulDiv(std::int64_t a, std::int64_t b, std::int64_t c) {
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(a) * b / c);
}

/// Thousandths of devices that the free CPU cannot serve.
std::int64_t Strand(std::int64_t cpu, std::int64_t devices, std::int64_t cpu_per_device) {
  if (cpu_per_device <= 0) return 0;
  return std::max<std::int64_t>(
      0, devices - MulDiv(std::max<std::int64_t>(cpu, 0), cluster::kMilli, cpu_per_device));
}

bool Odd(std::int64_t devices) { return (devices / cluster::kMilli) % 2 == 1; }

/// The weighted terms of one placement, before rank.
struct Terms {
  Score fragmentation = 0;
  Score stranding = 0;
  Score scarcity = 0;
  Score odd_remainder = 0;
  Score empty_node = 0;
  Score rank = 0;
  Score sum() const {
    return fragmentation + stranding + scarcity + odd_remainder + empty_node + rank;
  }
};

/// Graded first-fit.
Score RankTerm(const cluster::Store& store, NodeIndex node) {
  const int nodes = std::max(1, store.present_nodes());
  return -MulDiv(store.policy().placement.score.rank * cluster::kMilli, store.rank(node), nodes);
}

/// The device that is scarce on this node: what the pod asks for, else the policy's first.
cluster::ResourceId ScoredDevice(const PodShape& shape, const cluster::Store& store) {
  if (shape.device != cluster::kPods) return shape.device;
  return store.device_ids().empty() ? cluster::kPods : store.device_ids().front();
}

Terms Evaluate(const PodShape& shape, const Overlay& overlay, NodeIndex index, const Law& law,
               FitCache& fit) {
  const cluster::Store& store = overlay.store();
  const NodeInfo& node = store.node(index);
  const config::ScoreWeights& weights = store.policy().placement.score;
  const cluster::ResourceId device = ScoredDevice(shape, store);
  const std::int64_t all = device == cluster::kPods ? 0 : node.allocatable[device];
  const std::int64_t free = device == cluster::kPods ? 0 : overlay.Free(index, device);
  const std::int64_t cpu = overlay.Free(index, cluster::kCpu);
  const std::int64_t takes = shape.whole_node ? free : DemandOf(shape, device);
  const std::int64_t left = free - takes;
  const std::int64_t cpu_left = cpu - DemandOf(shape, cluster::kCpu);
  const auto weighted = [](std::int64_t weight, std::int64_t thousandths) {
    return weight * thousandths;  // thousandths x thousandths = millionths
  };
  Terms terms;
  terms.fragmentation =
      weighted(weights.fragmentation,
               Fragment(law, node, fit, cpu, free) - Fragment(law, node, fit, cpu_left, left));
  terms.stranding = -weighted(weights.stranding, Strand(cpu_left, left, law.cpu_per_device()) -
                                                     Strand(cpu, free, law.cpu_per_device()));
  terms.scarcity = -MulDiv(weights.scarcity * takes, law.Price(node), kMillion);
  if (takes > 0) {
    terms.odd_remainder =
        -weighted(weights.odd_remainder, cluster::kMilli * (int{Odd(left)} - int{Odd(free)}));
    const bool opened = free == all && left > 0;
    terms.empty_node = -weighted(weights.empty_node, opened ? cluster::kMilli : 0);
  } else if (all > 0) {
    // A pod without devices belongs where few devices are free (0.8 x free / 8).
    terms.empty_node = -weighted(800, free / 8);
  }
  terms.rank = RankTerm(store, index);
  return terms;
}

}  // namespace

const std::string& DeviceModel(const NodeInfo& node) {
  static const std::string kUnknown;
  const auto it = node.object.meta.labels.find("nvidia.com/gpu.product");
  return it == node.object.meta.labels.end() ? kUnknown : it->second;
}

// --- Law -----------------------------------------------------------------------------------------

Law::Law() { UseBuiltIn(); }

void Law::UseBuiltIn() {
  entries_.clear();
  for (const std::int64_t devices : std::array<std::int64_t, 4>{1, 2, 4, 8}) {
    entries_.push_back({.shape = nullptr,
                        .cpu = 0,
                        .devices = devices * cluster::kMilli,
                        .millionths = kMillion / 4});
  }
}

void Law::Observe(std::shared_ptr<const PodShape> shape) {
  window_.push_back(std::move(shape));
  if (window_.size() > kWindow) window_.pop_front();
  ++fresh_;
}

void Law::Refresh(const cluster::Store& store, FitCache& fit) {
  const bool due = fresh_ >= kRefresh || (generation_ == 1 && window_.size() >= kMinSample);
  if (!due) return;
  fresh_ = 0;
  ++generation_;
  RecomputeEntries();
  RecomputePrices(store, fit);
}

void Law::RecomputeEntries() {
  std::map<const PodShape*, std::size_t> counts;  // by address only to count; sorted by content
  std::vector<std::pair<std::size_t, std::shared_ptr<const PodShape>>> popular;
  for (const auto& shape : window_) {
    if (counts[shape.get()]++ == 0) popular.emplace_back(0, shape);  // first seen first
  }
  for (auto& [count, shape] : popular) count = counts[shape.get()];
  std::ranges::stable_sort(popular, std::ranges::greater{}, [](const auto& p) { return p.first; });
  if (popular.size() > kMaxShapes) popular.resize(kMaxShapes);
  std::size_t total = 0;
  for (const auto& [count, shape] : popular) total += count;
  entries_.clear();
  std::int64_t cpu = 0;
  std::int64_t devices = 0;
  for (const auto& [count, shape] : popular) {
    const auto n = static_cast<std::int64_t>(count);
    entries_.push_back({.shape = shape,
                        .cpu = DemandOf(*shape, cluster::kCpu),
                        .devices = shape->device_amount,
                        .millionths = n * kMillion / static_cast<std::int64_t>(total)});
    cpu += n * entries_.back().cpu;
    devices += n * entries_.back().devices;
  }
  cpu_per_device_ = devices == 0 ? 0 : MulDiv(cpu, cluster::kMilli, devices);
}

void Law::RecomputePrices(const cluster::Store& store, FitCache& fit) {
  prices_.clear();
  struct Model {
    std::int64_t free = 0;
    std::vector<NodeIndex> nodes;
  };
  std::map<std::string, Model> models;
  std::int64_t free = 0;
  for (const auto& node : store.nodes()) {
    if (!node->present || store.device_ids().empty()) continue;
    const cluster::ResourceId device = store.device_ids().front();
    if (node->allocatable[device] == 0) continue;
    Model& model = models[DeviceModel(*node)];
    model.free += std::max<std::int64_t>(0, node->free(device));
    model.nodes.push_back(node->index);
    free += std::max<std::int64_t>(0, node->free(device));
  }
  std::int64_t total = 0;
  std::map<std::string, std::int64_t> bound;  // popularity x devices of pods tied to a model
  for (const Entry& entry : entries_) {
    const std::int64_t demand = MulDiv(entry.millionths, entry.devices, cluster::kMilli);
    total += demand;
    if (entry.shape == nullptr) continue;
    std::vector<std::string> allowed;
    for (const auto& [name, model] : models) {
      if (std::ranges::any_of(model.nodes, [&](NodeIndex index) {
            return fit.Fits(*entry.shape, store.node(index));
          })) {
        allowed.push_back(name);
      }
    }
    if (allowed.size() == models.size()) continue;
    for (const std::string& name : allowed) bound[name] += demand;
  }
  if (total == 0) return;
  for (const auto& [name, demand] : bound) {
    const std::int64_t scarce = std::max<std::int64_t>(models[name].free, cluster::kMilli);
    const std::int64_t share = MulDiv(demand, kMillion, total);
    prices_[name] = std::min(2 * kMillion, MulDiv(share, free, scarce));
  }
}

std::int64_t Law::Price(const NodeInfo& node) const {
  if (prices_.empty()) return 0;
  const auto it = prices_.find(DeviceModel(node));
  return it == prices_.end() ? 0 : it->second;
}

std::int64_t Fragment(const Law& law, const NodeInfo& node, FitCache& fit, std::int64_t cpu,
                      std::int64_t devices) {
  std::int64_t unusable = 0;  // millionths of popularity
  for (const Law::Entry& entry : law.entries()) {
    const bool usable = devices >= entry.devices && entry.devices > 0 && cpu >= entry.cpu &&
                        (entry.shape == nullptr || fit.Fits(*entry.shape, node));
    if (!usable) unusable += entry.millionths;
  }
  return MulDiv(std::max<std::int64_t>(0, devices), unusable, kMillion);
}

// --- Scorer --------------------------------------------------------------------------------------

std::optional<Score> ShapeScores::Base(const Overlay& overlay, NodeIndex node, const Law& law,
                                       FitCache& fit) const {
  if (!fit.Fits(*shape_, store_->node(node))) return std::nullopt;
  if (Capacity(*shape_, overlay, node, 1) == 0) return std::nullopt;
  Terms terms = Evaluate(*shape_, overlay, node, law, fit);
  terms.rank = 0;
  return terms.sum();
}

std::optional<Score> ShapeScores::Of(const Overlay& overlay, NodeIndex node, Law& law,
                                     FitCache& fit) {
  std::optional<Score> base;
  if (overlay.Touched(node)) {
    base = Base(overlay, node, law, fit);
  } else {
    const auto index = static_cast<std::size_t>(node);
    if (index >= entries_.size()) entries_.resize(store_->nodes().size());
    Entry& entry = entries_[index];
    const std::uint64_t generation = store_->node(node).generation;
    if (entry.node_generation != generation || entry.law_generation != law.generation()) {
      entry = {.node_generation = generation,
               .law_generation = law.generation(),
               .base = Base(overlay, node, law, fit)};
    }
    base = entry.base;
  }
  if (!base) return std::nullopt;
  return *base + RankTerm(*store_, node);
}

ShapeScores& Scorer::For(const std::shared_ptr<const PodShape>& shape) {
  if (const auto it = shapes_.find(shape.get()); it != shapes_.end()) return it->second;
  if (shapes_.size() >= kMaxShapes) shapes_.clear();
  return shapes_.emplace(shape.get(), ShapeScores(shape, *store_)).first->second;
}

std::map<std::string, Score> Scorer::Terms(const PodShape& shape, const Overlay& overlay,
                                           NodeIndex node) {
  const auto terms = Evaluate(shape, overlay, node, law_, fit_);
  return {{"fragmentation", terms.fragmentation}, {"stranding", terms.stranding},
          {"scarcity", terms.scarcity},           {"oddRemainder", terms.odd_remainder},
          {"emptyNode", terms.empty_node},        {"rank", terms.rank}};
}

}  // namespace berth::policy
