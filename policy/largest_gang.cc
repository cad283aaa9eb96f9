#include "policy/largest_gang.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "policy/fit.h"

namespace berth::policy {
namespace {

using cluster::PodShape;

constexpr std::array<std::int64_t, 4> kUsualSizes{1, 2, 4, 8};

struct Popular {
  std::shared_ptr<const PodShape> shape;  ///< The most frequent one.
  std::int64_t most = 0;                  ///< Pods of that shape.
  std::int64_t pods = 0;                  ///< Pods of the size.
};

/// By size: the first size whose pods have the same node constraints; most often all have the same.
std::vector<std::size_t> SayTheSame(std::span<const PodSize> sizes) {
  const auto said = [](const PodSize& size) {
    const kube::PodSpec& spec = *size.shape->spec;
    return std::tie(spec.node_selector, spec.has_required_node_affinity,
                    spec.required_node_affinity, spec.tolerations);
  };
  std::vector<std::size_t> first;
  for (const PodSize& size : sizes) {
    const auto it = std::ranges::find_if(
        sizes, [&](const PodSize& other) { return said(other) == said(size); });
    first.push_back(static_cast<std::size_t>(it - sizes.begin()));
  }
  return first;
}

}  // namespace

std::shared_ptr<const PodShape> BarePod(const cluster::Store& store, std::int64_t devices) {
  const cluster::ResourceId device = store.device_ids().front();
  const std::string& name = store.resources().Name(device);
  auto spec = std::make_shared<kube::PodSpec>();
  spec->requests[name] = devices * cluster::kMilli;
  spec->tolerations = {{.key = name, .exists = true, .value = {}, .effect = {}}};
  auto shape = std::make_shared<PodShape>();
  shape->spec = std::move(spec);
  shape->demand = {{cluster::kPods, 1}, {device, devices * cluster::kMilli}};
  shape->device = device;
  shape->device_amount = devices * cluster::kMilli;
  shape->asks_device = true;
  return shape;
}

void SizeCount::Add(const cluster::Store& store, const cluster::Workload& workload) {
  if (workload.members.empty() || store.device_ids().empty()) return;
  const auto& shape = workload.members.front()->shape;
  const bool whole = shape->share == 0 && !shape->whole_node &&
                     shape->device == store.device_ids().front() &&
                     shape->device_amount % cluster::kMilli == 0;
  if (!whole) return;
  const auto [it, fresh] = at_.try_emplace(shape.get(), order_.size());
  if (fresh) order_.push_back({.shape = shape});
  order_[it->second].pods += static_cast<std::int64_t>(workload.members.size());
}

std::vector<PodSize> SizeCount::Sizes(const cluster::Store& store) const {
  if (store.device_ids().empty() || !store.IsWholeDevice(store.device_ids().front())) return {};
  std::map<std::int64_t, Popular> here;
  for (const Seen& seen : order_) {  // among equally frequent shapes the first one wins
    Popular& size = here[seen.shape->device_amount / cluster::kMilli];
    size.pods += seen.pods;
    if (seen.pods <= size.most) continue;
    size.most = seen.pods;
    size.shape = seen.shape;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> others;  // the most frequent first
  for (const auto& [size, popular] : here) {
    if (std::ranges::find(kUsualSizes, size) == kUsualSizes.end()) {
      others.emplace_back(-popular.pods, size);
    }
  }
  std::ranges::sort(others);
  std::vector<PodSize> sizes;
  const auto add = [&](std::int64_t size) {
    const auto it = here.find(size);
    sizes.push_back({size, it == here.end() ? BarePod(store, size) : it->second.shape});
  };
  for (const std::int64_t size : kUsualSizes) add(size);
  for (const auto& [pods, size] : others) {
    if (sizes.size() == kMaxPodSizes) break;
    add(size);
  }
  std::ranges::sort(sizes, {}, &PodSize::devices);
  return sizes;
}

std::vector<LargestGang> LargestGangs(const cluster::Store& store, std::span<const PodSize> sizes) {
  const Overlay overlay(store);
  const std::vector<std::size_t> like = SayTheSame(sizes);
  std::vector<bool> fits(sizes.size());
  std::vector<std::int64_t> whole(sizes.size(), 0);
  std::vector<std::int64_t> inside(sizes.size() * store.domains().size(), 0);  // by domain, size
  for (const auto& node : store.nodes()) {
    if (!node->present) continue;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const PodShape& shape = *sizes[i].shape;
      fits[i] = like[i] < i ? fits[like[i]] : FitsNode(*shape.spec, *node);
      if (!fits[i]) continue;
      const int room =
          Capacity(shape, overlay, node->index, std::numeric_limits<std::int32_t>::max());
      if (room == 0) continue;
      whole[i] += room;
      for (const cluster::DomainId domain : node->domains) {
        if (domain == cluster::kNoDomain) continue;
        inside[static_cast<std::size_t>(domain) * sizes.size() + i] += room;
      }
    }
  }
  const std::size_t levels = store.policy().levels.size();
  std::vector<std::int64_t> best(sizes.size() * levels, 0);  // by level, size
  for (std::size_t domain = 0; domain < store.domains().size(); ++domain) {
    const auto level = static_cast<std::size_t>(store.domains()[domain].level);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t& most = best[level * sizes.size() + i];
      most = std::max(most, inside[domain * sizes.size() + i]);
    }
  }
  std::vector<LargestGang> gangs;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    gangs.push_back({.level = kWholeCluster, .devices = sizes[i].devices, .pods = whole[i]});
  }
  for (std::size_t j = 0; j < best.size(); ++j) {
    gangs.push_back({.level = static_cast<int>(j / sizes.size()),
                     .devices = sizes[j % sizes.size()].devices,
                     .pods = best[j]});
  }
  return gangs;
}

}  // namespace berth::policy
