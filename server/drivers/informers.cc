#include "server/drivers/informers.h"

#include <simdjson.h>

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
  using engine::Engine;
  using engine::TimePoint;
  const auto add = [this](std::string name, std::string path, auto decode, auto key, auto upsert,
                          auto remove) {
    kube::ReflectorConfig config;
    config.name = name;
    config.path = std::move(path);
    Add(std::move(config),
        std::make_unique<ObjectSink>(
            name, metrics_, logger_,
            [this, decode, key, upsert](simdjson::dom::element json) -> Upserted {
              auto object = decode(json);
              if (!object) return {.problem = object.error().ToString()};
              Upserted upserted{.key = key(object->meta), .problem = object->meta.left_out};
              host_.Apply([&](Engine& e, TimePoint now) { upsert(e, std::move(*object), now); });
              return upserted;
            },
            [this, remove](const std::string& id) {
              host_.Apply([&](Engine& e, TimePoint now) { remove(e, id, now); });
            }));
  };
  const auto by_name = [](const kube::ObjectMeta& meta) { return meta.name; };
  const auto by_uid = [](const kube::ObjectMeta& meta) { return meta.uid; };
  using Json = simdjson::dom::element;
  add(
      "nodes", "/api/v1/nodes", [](Json j) { return kube::DecodeNode(j); }, by_name,
      [this](Engine& e, kube::Node n, TimePoint now) {
        dra_.Complete(n);
        e.OnNode(std::move(n), now);
      },
      [this](Engine& e, const std::string& id, TimePoint now) {
        dra_.Forget(id);
        e.OnNodeDeleted(id, now);
      });
  add(
      "namespaces", "/api/v1/namespaces", [](Json j) { return kube::DecodeNamespace(j); }, by_name,
      [](Engine& e, kube::Namespace n, TimePoint) { e.OnNamespace(std::move(n)); },
      [](Engine& e, const std::string& id, TimePoint) { e.OnNamespaceDeleted(id); });
  add(
      "pods", "/api/v1/pods", [](Json j) { return kube::DecodePod(j); }, by_uid,
      [this](Engine& e, kube::Pod p, TimePoint now) {
        if (pod_seen_) pod_seen_(p);
        e.OnPod(std::move(p), now);
      },
      [this](Engine& e, const std::string& id, TimePoint now) {
        if (pod_gone_) pod_gone_(id);
        e.OnPodDeleted(id, now);
      });
  add(
      "poddisruptionbudgets", "/apis/policy/v1/poddisruptionbudgets",
      [](Json j) { return kube::DecodePodDisruptionBudget(j); }, by_uid,
      [](Engine& e, kube::PodDisruptionBudget b, TimePoint) { e.OnDisruptionBudget(std::move(b)); },
      [](Engine& e, const std::string& id, TimePoint) { e.OnDisruptionBudgetDeleted(id); });
  // The API server resolves spec.priority itself; the classes are only watched for their names.
  add(
      "priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses",
      [](Json j) { return kube::DecodePriorityClass(j); }, by_name,
      [](Engine&, kube::PriorityClass, TimePoint) {},
      [](Engine&, const std::string&, TimePoint) {});
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
