#include "server/drivers/dra_informers.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

namespace berth::server {

DraInformers::DraInformers(kube::RestClient& client, HostDriver& host, Metrics& metrics,
                           Logger& logger, std::function<void()> on_synced)
    : client_(client),
      host_(host),
      metrics_(metrics),
      logger_(logger),
      on_synced_(std::move(on_synced)) {
  const auto by_name = [](const kube::ObjectMeta& meta) { return meta.name; };
  const auto by_uid = [](const kube::ObjectMeta& meta) { return meta.uid; };
  Add("deviceclasses", &kube::DecodeDeviceClass, by_name,
      [this](const std::string& name) { return counts_.DeleteClass(name); });
  Add("resourceslices", &kube::DecodeResourceSlice, by_name,
      [this](const std::string& name) { return counts_.DeleteSlice(name); });
  Add("resourceclaims", &kube::DecodeResourceClaim, by_uid,
      [this](const std::string& uid) { return counts_.DeleteClaim(uid); });
}

template <typename Decode, typename Key, typename Delete>
void DraInformers::Add(const std::string& plural, Decode decode, Key key, Delete remove) {
  unsettled_.insert(plural);
  const std::string name = plural + ".resource.k8s.io";
  auto sink = std::make_unique<ObjectSink>(
      name, metrics_, logger_,
      [this, decode, key](simdjson::dom::element json) -> Upserted {
        auto object = decode(json);
        if (!object) return {.problem = object.error().ToString()};
        Upserted upserted{.key = key(object->meta), .problem = object->meta.left_out};
        host_.Apply([&](engine::Engine& e, engine::TimePoint now) {
          Tell(e, now, counts_.Upsert(std::move(*object)));
        });
        return upserted;
      },
      [this, remove](const std::string& id) {
        host_.Apply([&](engine::Engine& e, engine::TimePoint now) { Tell(e, now, remove(id)); });
      });
  sink->OnFirstSync([this, plural] { Settle(plural); });
  sink->OnEachRestart([this, plural, errors = 0](kube::RestartReason reason) mutable {
    // The kind is not served, or access is denied: Berth must start without it. A single server
    // error does not count: an API server that starts answers 503.
    const bool failing = reason == kube::RestartReason::kServerError && ++errors > 1;
    if (failing || reason == kube::RestartReason::kRefused ||
        reason == kube::RestartReason::kMalformed) {
      Settle(plural);
    }
  });
  kube::ReflectorConfig config;
  config.name = name;
  config.path = "/apis/resource.k8s.io/v1/" + plural;
  reflectors_.push_back(std::make_unique<kube::Reflector>(client_, std::move(config), *sink));
  sinks_.push_back(std::move(sink));
}

DraInformers::~DraInformers() { Stop(); }

void DraInformers::Start() {
  for (auto& reflector : reflectors_) {
    threads_.emplace_back([&reflector = *reflector](std::stop_token stop) { reflector.Run(stop); });
  }
}

void DraInformers::Stop() {
  for (auto& thread : threads_) thread.request_stop();
  threads_.clear();
}

std::int64_t DraInformers::StalestMs() const {
  std::int64_t stalest = 0;
  for (const auto& sink : sinks_) stalest = std::max(stalest, sink->SilentMs());
  return stalest;
}

void DraInformers::Complete(kube::Node& node) {
  kube::ResourceList added;
  for (const auto& [resource, amount] : counts_.Of(node.meta.name)) {
    std::int64_t& listed = node.allocatable[resource];
    if (listed > 0) continue;  // a device plugin provides it: kube-scheduler uses only that
    listed = amount;
    added[resource] = amount;
  }
  if (added.empty()) {
    filled_.erase(node.meta.name);
  } else {
    filled_[node.meta.name] = std::move(added);
  }
}

void DraInformers::Forget(const std::string& node) { filled_.erase(node); }

void DraInformers::Tell(engine::Engine& engine, engine::TimePoint now,
                        const kube::DraCounts::Nodes& nodes) {
  for (const std::string& name : nodes) {
    const cluster::NodeIndex index = engine.store().FindNode(name);
    if (index == cluster::kNoNode || !engine.store().node(index).present) continue;
    kube::Node node = engine.store().node(index).object;
    const kube::ResourceList before = node.allocatable;
    if (const auto it = filled_.find(name); it != filled_.end()) {
      for (const auto& [resource, amount] : it->second) node.allocatable.erase(resource);
    }
    Complete(node);
    if (node.allocatable != before) engine.OnNode(std::move(node), now);
  }
  if (counts_.Ignored() == ignored_) return;
  ignored_ = counts_.Ignored();
  std::vector<LabelledValue> ignored;
  for (const auto& [reason, count] : ignored_) {
    ignored.push_back({.label = reason, .value = static_cast<double>(count)});
  }
  metrics_.ReplaceDraIgnored(ignored);
}

void DraInformers::Settle(const std::string& plural) {
  std::function<void()> synced;
  {
    const std::scoped_lock lock(mutex_);
    unsettled_.erase(plural);
    if (unsettled_.empty()) synced = std::exchange(on_synced_, nullptr);
  }
  if (synced) synced();
}

}  // namespace berth::server
