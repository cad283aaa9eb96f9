#include "server/drivers/informers.h"

#include <simdjson.h>

#include "host/watched.h"
#include "kube/decode.h"
#include "server/drivers/object_sink.h"

namespace berth::server {
Informers::Informers(kube::RestClient& client, HostDriver& host, Metrics& metrics, Logger& logger,
                     std::function<void()> on_synced)
    : client_(client),
      host_(host),
      metrics_(metrics),
      logger_(logger),
      on_synced_(std::move(on_synced)),
      dialects_(client, host, metrics, logger, [this] { OnFirstSync(); }),
      dra_(client, host, metrics, logger, [this] { OnFirstSync(); }) {
  Watch<kube::Node>("nodes", "/api/v1/nodes", &kube::DecodeNode,
                    {.upsert = [this](kube::Node& node) { dra_.Complete(node); },
                     .remove = [this](const std::string& name) { dra_.Forget(name); }});
  Watch<kube::Namespace>("namespaces", "/api/v1/namespaces", &kube::DecodeNamespace, {});
  Watch<kube::Pod>("pods", "/api/v1/pods", &kube::DecodePod,
                   {.upsert =
                        [this](kube::Pod& pod) {
                          if (pod_seen_) pod_seen_(pod);
                        },
                    .remove =
                        [this](const std::string& uid) {
                          if (pod_gone_) pod_gone_(uid);
                        }});
  Watch<kube::PodDisruptionBudget>("poddisruptionbudgets", "/apis/policy/v1/poddisruptionbudgets",
                                   &kube::DecodePodDisruptionBudget, {});
  Watch<kube::PriorityClass>("priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses",
                             &kube::DecodePriorityClass, {});
}

/// `before` is called before the engine is told, under the host's lock.
template <typename Object>
void Informers::Watch(const std::string& name, const std::string& path, Decode<Object> decode,
                      Before<Object> before) {
  using Events = host::Watched<Object>;
  using engine::Engine;
  using engine::TimePoint;
  kube::ReflectorConfig config;
  config.name = name;
  config.path = path;
  Add(std::move(config),
      std::make_unique<ObjectSink>(
          name, metrics_, logger_,
          [this, decode, upsert = before.upsert](simdjson::dom::element json) -> Upserted {
            auto object = decode(json);
            if (!object) return {.problem = object.error().ToString()};
            Upserted upserted{.key = Events::Key(object->meta), .problem = object->meta.left_out};
            host_.Apply([&](Engine& e, TimePoint now) {
              if (upsert) upsert(*object);
              Events::Upsert(e, std::move(*object), now);
            });
            return upserted;
          },
          [this, remove = before.remove](const std::string& key) {
            host_.Apply([&](Engine& e, TimePoint now) {
              if (remove) remove(key);
              Events::Remove(e, key, now);
            });
          }));
}

Informers::~Informers() { Stop(); }

void Informers::WatchPolicy(const std::string& ns, const std::string& name, PolicySink sink,
                            std::function<void()> gone) {
  kube::ReflectorConfig config;
  config.name = "configmaps";
  config.path = "/api/v1/namespaces/" + ns + "/configmaps";
  config.field_selector = "metadata.name=" + name;
  Add(std::move(config), std::make_unique<ObjectSink>(
                             "configmaps", metrics_, logger_,
                             [sink](simdjson::dom::element json) -> Upserted {
                               auto object = kube::DecodeConfigMap(json);
                               if (!object) return {.problem = object.error().ToString()};
                               sink(*object);
                               return {.key = object->meta.name};  // created again while we were
                                                                   // not watching: not gone
                             },
                             [gone](const std::string&) { gone(); }));
}

void Informers::Add(kube::ReflectorConfig config, std::unique_ptr<ObjectSink> sink) {
  sink->OnFirstSync([this] { OnFirstSync(); });
  reflectors_.push_back(std::make_unique<kube::Reflector>(client_, std::move(config), *sink));
  sinks_.push_back(std::move(sink));
  ++waiting_;
}

void Informers::Start() {
  for (auto& reflector : reflectors_) {
    threads_.emplace_back([&reflector = *reflector](std::stop_token stop) { reflector.Run(stop); });
  }
  dialects_.Start();
  dra_.Start();
}

void Informers::OnFirstSync() {
  if (--waiting_ == 0) on_synced_();
}

std::int64_t Informers::StalestMs() const {
  const std::int64_t now = ObjectSink::SteadyMs();
  std::int64_t oldest = now;
  for (const auto& sink : sinks_) oldest = std::min(oldest, sink->alive_ms());
  return now - oldest;
}

std::int64_t Informers::StalestOfAllMs() const {
  return std::max({StalestMs(), dialects_.StalestMs(), dra_.StalestMs()});
}

void Informers::Stop() {
  dialects_.Stop();
  dra_.Stop();
  for (auto& thread : threads_) thread.request_stop();
  threads_.clear();
}

}  // namespace berth::server
