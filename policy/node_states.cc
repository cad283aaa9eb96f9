#include "policy/node_states.h"

#include <algorithm>

namespace berth::policy {
namespace {

constexpr std::size_t kDeviceWords = std::tuple_size_v<topology::DeviceSet::Words>;

/// Kinds of device pods on the node; see NodeStates.
std::uint32_t Hosted(const cluster::NodeInfo& node) {
  std::uint32_t hosted = 0;
  for (const cluster::PodInfo* pod : node.pods) {
    const cluster::PodShape& shape = *pod->shape;
    if (shape.share > 0) {
      hosted |= 1U;
    } else if (shape.device_amount > 0) {
      hosted |= 1U << std::min<std::int64_t>(31, shape.device_amount / cluster::kMilli);
    }
  }
  return hosted;
}

}  // namespace

std::size_t NodeStates::Hash::operator()(Id id) const {
  std::uint64_t hash = 0x9e3779b97f4a7c15U;
  for (const std::int64_t word : states->Key(id)) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32U;
  }
  return hash;
}

bool NodeStates::Equal::operator()(Id a, Id b) const {
  return std::ranges::equal(states->Key(a), states->Key(b));
}

NodeState NodeStates::state(Id id) const {
  const auto key = Key(id);
  const auto tail = key.subspan(2 * width_);
  topology::DeviceSet::Words words;
  std::ranges::copy(tail.first(kDeviceWords), words.begin());
  const auto packed = static_cast<std::uint64_t>(tail[kDeviceWords]);
  NodeState state{.free_by_id = key.first(width_),
                  .all_by_id = key.subspan(width_, width_),
                  .devices = topology::DeviceSet(words, static_cast<int>(packed >> 32U)),
                  .hosted = static_cast<std::uint32_t>(packed),
                  .mix = &mix_->Class(static_cast<std::uint32_t>(tail[kDeviceWords + 1]))};
  if (const auto joined = static_cast<std::uint64_t>(tail[kDeviceWords + 2]); joined != 0) {
    state.machine = store_->machines()[(joined >> 16U) - 1U].get();
    state.free_devices = static_cast<topology::DeviceMask>(joined);
  }
  return state;
}

NodeStates::Id NodeStates::of(const Overlay& overlay, cluster::NodeIndex node) {
  if (!overlay.Touched(node)) return of(node);
  return Intern(store_->node(node), overlay.used(node), overlay.devices(node));
}

NodeStates::Id NodeStates::Intern(const cluster::NodeInfo& node, const cluster::Amounts& used,
                                  const topology::DeviceSet& devices) {
  const auto fresh = static_cast<Id>(ids_.size());
  keys_.resize((fresh + std::size_t{1}) * stride_);
  std::int64_t* key = keys_.data() + fresh * stride_;
  for (cluster::ResourceId id = 0; id < width_; ++id) {
    key[id] = node.allocatable[id] - used[id];
    key[width_ + id] = node.allocatable[id];
  }
  std::int64_t* tail = key + 2 * width_;
  // Without shares a score asks at most which devices are free, and only where that matters.
  const bool shares = store_->options().shares;
  std::ranges::copy(shares ? devices.words() : topology::DeviceSet::Words{}, tail);
  const auto count = static_cast<std::uint64_t>(shares ? devices.size() : 0);
  tail[kDeviceWords] = static_cast<std::int64_t>(count << 32U | (with_hosted_ ? Hosted(node) : 0U));
  tail[kDeviceWords + 1] = mix_->ClassOf(node.index);
  const topology::Machine* machine = devices.size() > 0 ? store_->MachineOf(node) : nullptr;
  const bool matters = machine != nullptr && !machine->uniform();
  tail[kDeviceWords + 2] = matters ? (std::int64_t{node.machine} + 1) << 16U |
                                         std::int64_t{devices.AtLeast(topology::DeviceSet::kWhole)}
                                   : 0;
  return *ids_.insert(fresh).first;
}

/// Resources that some node has or that are used on some node.
std::size_t NodeStates::Width() const {
  std::size_t width = 0;
  for (const auto& node : store_->nodes()) {
    width = std::max({width, node->allocatable.size(), node->used.size()});
  }
  return width;
}

void NodeStates::StartOver(const WorkloadMix& mix) {
  ids_.clear();
  keys_ = {};  // with its capacity
  ++epoch_;
  width_ = Width();
  stride_ = 2 * width_ + kDeviceWords + 3;
  mix_ = &mix;
  class_generation_ = mix.class_generation();
  id_of_.resize(store_->nodes().size());
  for (const auto& node : store_->nodes()) {
    id_of_[static_cast<std::size_t>(node->index)] = Intern(*node, node->used, node->devices);
  }
}

std::size_t NodeStates::bytes() const {
  // The size of a set entry: the id, its hash, a pointer to the next entry, and one from its
  // bucket.
  constexpr std::size_t kEntry = 40;
  return keys_.capacity() * sizeof(std::int64_t) + ids_.size() * kEntry;
}

/// A margin above the number of nodes is always kept, so that the check is not repeated at once.
bool NodeStates::TooMany() const {
  const std::size_t nodes = store_->nodes().size();
  return ids_.size() > kMaxStates + 4 * nodes ||
         (bytes() > kMaxBytes && ids_.size() > 64 + 2 * nodes);
}

void NodeStates::CatchUp(const WorkloadMix& mix) {
  const cluster::ChangeLog& log = store_->changes();
  if (seen_ == log.end() && class_generation_ == mix.class_generation()) return;
  const auto changed = log.Since(seen_);
  seen_ = log.end();
  bool start_over =
      mix_ == nullptr || class_generation_ != mix.class_generation() || !changed || TooMany();
  for (const cluster::NodeIndex index : changed.value_or(std::span<const std::int32_t>())) {
    const cluster::NodeInfo& node = store_->node(index);
    start_over |= std::max(node.allocatable.size(), node.used.size()) > width_;
  }
  if (start_over) {
    StartOver(mix);
    return;
  }
  id_of_.resize(store_->nodes().size());
  for (const cluster::NodeIndex index : *changed) {
    const cluster::NodeInfo& node = store_->node(index);
    id_of_[static_cast<std::size_t>(index)] = Intern(node, node.used, node.devices);
  }
}

}  // namespace berth::policy
