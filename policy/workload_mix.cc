#include "policy/workload_mix.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace berth::policy {

using cluster::NodeIndex;
using cluster::NodeInfo;
using cluster::PodShape;

std::int64_t DemandOf(const PodShape& shape, cluster::ResourceId id) {
  const auto it = std::ranges::find(shape.demand, id, &cluster::Demand::value_type::first);
  return it == shape.demand.end() ? 0 : it->second;
}

const std::string& DeviceModel(const NodeInfo& node) {
  static const std::string kUnknown;
  const auto it = node.object.meta.labels.find("nvidia.com/gpu.product");
  return it == node.object.meta.labels.end() ? kUnknown : it->second;
}

bool KindOrder::operator()(const Shape& a, const Shape& b) const {
  const auto kind = [](const PodShape& shape) {
    const std::int64_t milli = shape.share > 0 ? shape.share : cluster::kMilli;
    const kube::PodSpec& spec = *shape.spec;
    return std::tuple(DemandOf(shape, cluster::kCpu), shape.device_amount == 0 ? 0 : milli,
                      shape.device_amount / milli,
                      std::tie(spec.node_selector, spec.required_node_affinity, spec.tolerations));
  };
  return kind(*a) > kind(*b);
}

// --- The measure ---------------------------------------------------------------------------------

namespace {

/// Whole devices that are only counted: a pod that fits can use all of them.
std::int64_t CountedFragment(const NodeMix& mix, std::int64_t cpu, std::int64_t free) {
  std::int64_t unusable = mix.unusable;
  for (const NodeMix::Pod& pod : mix.pods) {
    const bool usable = free >= std::int64_t{pod.milli} * pod.devices && cpu >= pod.cpu;
    if (!usable) unusable += pod.millionths;
  }
  return std::max<std::int64_t>(0, free) * unusable;
}

}  // namespace

std::int64_t FragmentSum(const NodeMix& mix, std::int64_t cpu, std::int64_t free,
                         const topology::DeviceSet& devices) {
  if (devices.size() == 0) return CountedFragment(mix, cpu, free);
  std::array<int, topology::DeviceSet::kMost> sorted;  // rising
  const int count = devices.size();
  for (int i = 0; i < count; ++i) {
    int at = i;
    const int milli = devices.free(i);
    for (; at > 0 && sorted[static_cast<std::size_t>(at - 1)] > milli; --at) {
      sorted[static_cast<std::size_t>(at)] = sorted[static_cast<std::size_t>(at - 1)];
    }
    sorted[static_cast<std::size_t>(at)] = milli;
  }
  std::int64_t total = 0;
  for (int i = 0; i < count; ++i) total += sorted[static_cast<std::size_t>(i)];
  std::int64_t sum = total * mix.unusable;
  int below = 0;          // devices with less than the pod at hand needs
  std::int64_t lost = 0;  // what is free on them
  for (const NodeMix::Pod& pod : mix.pods) {
    while (below < count && sorted[static_cast<std::size_t>(below)] < pod.milli) {
      lost += sorted[static_cast<std::size_t>(below++)];
    }
    const bool usable = count - below >= pod.devices && cpu >= pod.cpu;
    sum += (usable ? lost : total) * pod.millionths;
  }
  return sum;
}

// --- Learning ------------------------------------------------------------------------------------

WorkloadMix::WorkloadMix() { UseBuiltIn(); }

void WorkloadMix::UseBuiltIn() {
  entries_.clear();
  for (const std::int64_t devices : std::array<std::int64_t, 4>{1, 2, 4, 8}) {
    entries_.push_back({.shape = nullptr,
                        .cpu = 0,
                        .devices = devices * cluster::kMilli,
                        .millionths = kMillion / 4});
  }
}

void WorkloadMix::Observe(std::shared_ptr<const PodShape> shape) {
  if (fixed_) return;
  window_.push_back(std::move(shape));
  if (window_.size() > kWindow) window_.pop_front();
  ++fresh_;
}

void WorkloadMix::Fix(std::vector<Entry> entries) {
  fixed_ = true;
  fresh_ = 0;
  window_.clear();
  prices_.clear();
  entries_ = std::move(entries);
  ++generation_;
  std::int64_t cpu = 0;
  std::int64_t devices = 0;
  for (const Entry& entry : entries_) {
    cpu += entry.millionths * entry.cpu;
    devices += entry.millionths * entry.devices;
  }
  cpu_per_device_ = devices == 0 ? 0 : MulDiv(cpu, cluster::kMilli, devices);
}

void WorkloadMix::Advance(const cluster::Store& store, FitCache& fit) {
  const bool due = fresh_ >= kRefresh || (generation_ == 1 && window_.size() >= kMinSample);
  if (!due) return;
  RecomputeGrowth(store);
  fresh_ = 0;
  ++generation_;
  RecomputeEntries();
  RecomputePrices(store, fit);
}

void WorkloadMix::Refresh(const cluster::Store& store, FitCache& fit) {
  Advance(store, fit);
  if (classified_ != generation_ || seen_ != store.object_changes().end()) Classify(store, fit);
}

void WorkloadMix::RecomputeGrowth(const cluster::Store& store) {
  std::int64_t charged = 0;
  for (const auto& node : store.nodes()) charged += static_cast<std::int64_t>(node->pods.size());
  if (charged_) {
    const std::int64_t now = MulDiv(charged - *charged_, cluster::kMilli,
                                    std::max<std::int64_t>(1, static_cast<std::int64_t>(fresh_)));
    growth_ = (3 * growth_ + std::clamp<std::int64_t>(now, 0, cluster::kMilli)) / 4;
  }
  charged_ = charged;
}

void WorkloadMix::RecomputeEntries() {
  std::map<std::shared_ptr<const PodShape>, std::size_t, KindOrder> at;
  std::vector<std::pair<std::size_t, std::shared_ptr<const PodShape>>> popular;
  for (const auto& shape : window_) {
    const auto [it, fresh] = at.try_emplace(shape, popular.size());
    if (fresh) popular.emplace_back(0, shape);  // first seen first
    ++popular[it->second].first;
  }
  std::ranges::stable_sort(popular, std::ranges::greater{}, [](const auto& p) { return p.first; });
  if (popular.size() > kMaxKinds) popular.resize(kMaxKinds);
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

void WorkloadMix::RecomputePrices(const cluster::Store& store, FitCache& fit) {
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
    const auto fits = fit.Row(*entry.shape);
    std::vector<std::string> allowed;
    for (const auto& [name, model] : models) {
      if (std::ranges::any_of(model.nodes, [&](NodeIndex index) {
            return fits[static_cast<std::size_t>(index)] != 0;
          })) {
        allowed.push_back(name);
      }
    }
    if (allowed.empty() || allowed.size() == models.size()) continue;
    // A pod that may use several models counts less for each of them.
    for (const std::string& name : allowed) {
      bound[name] += demand / static_cast<std::int64_t>(allowed.size());
    }
  }
  if (total == 0) return;
  for (const auto& [name, demand] : bound) {
    const std::int64_t scarce = std::max<std::int64_t>(models[name].free, cluster::kMilli);
    const std::int64_t share = MulDiv(demand, kMillion, total);
    prices_[name] = std::min(2 * kMillion, MulDiv(share, free, scarce));
  }
}

std::int64_t WorkloadMix::Price(const NodeInfo& node) const {
  if (prices_.empty()) return 0;
  const auto it = prices_.find(DeviceModel(node));
  return it == prices_.end() ? 0 : it->second;
}

// --- The mix as nodes see it ---------------------------------------------------------------------

void WorkloadMix::Classify(const cluster::Store& store, FitCache& fit) {
  const cluster::ChangeLog& log = store.object_changes();
  const auto changed = log.Since(seen_);
  const bool all = classified_ != generation_ || !changed;
  if (all) {
    classes_.clear();
    class_ids_.clear();
    ++class_generation_;
    classified_ = generation_;
  }
  seen_ = log.end();
  class_of_.resize(store.nodes().size(), 0);
  std::vector<std::span<const std::uint8_t>> rows;
  for (const Entry& entry : entries_) {
    rows.push_back(entry.shape == nullptr ? std::span<const std::uint8_t>()
                                          : fit.Row(*entry.shape));
  }
  const auto classify = [&](const NodeInfo& node) {
    class_of_[static_cast<std::size_t>(node.index)] = Classify(node, rows);
  };
  if (all) {
    for (const auto& node : store.nodes()) classify(*node);
  } else {
    for (const NodeIndex index : *changed) classify(store.node(index));
  }
}

std::uint32_t WorkloadMix::Classify(const NodeInfo& node,
                                    std::span<const std::span<const std::uint8_t>> rows) {
  std::vector<bool> may_run(entries_.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    may_run[i] = rows[i].empty() || rows[i][static_cast<std::size_t>(node.index)] != 0;
  }
  const auto [it, fresh] = class_ids_.try_emplace({Price(node), std::move(may_run)},
                                                  static_cast<std::uint32_t>(classes_.size()));
  if (!fresh) return it->second;
  NodeMix& mix = classes_.emplace_back();
  mix.price = it->first.first;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (!it->first.second[i] || entry.devices <= 0) {
      mix.unusable += entry.millionths;
      continue;
    }
    const int share = entry.shape == nullptr ? 0 : entry.shape->share;
    const int milli = share > 0 ? share : topology::DeviceSet::kWhole;
    mix.pods.push_back({.cpu = entry.cpu,
                        .milli = milli,
                        .devices = static_cast<int>(entry.devices / milli),
                        .millionths = entry.millionths});
  }
  std::ranges::stable_sort(mix.pods, {}, &NodeMix::Pod::milli);
  return it->second;
}

}  // namespace berth::policy
