#include "server/informers.h"

#include <chrono>
#include <unordered_set>

#include "kube/decode.h"

namespace berth::server {
namespace {

std::int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

/// Decodes one kind and hands it to the engine; makes up the deletes that a relist implies.
class Informers::Sink : public kube::ReflectorSink {
 public:
  /// Returns the object's key, or empty if it could not be read.
  using Upserter = std::function<std::string(simdjson::dom::element)>;
  using Deleter = std::function<void(const std::string& key)>;
  using KeyOf = std::function<std::string(const kube::ObjectMeta&)>;

  Sink(std::string name, Informers& owner, Upserter upsert, Deleter remove)
      : name_(std::move(name)),
        owner_(owner),
        upsert_(std::move(upsert)),
        remove_(std::move(remove)) {}

  void BeginReplace() override { seen_.clear(); }

  void EndReplace() override {
    std::vector<std::string> gone;
    for (const std::string& key : known_) {
      if (!seen_.contains(key)) gone.push_back(key);
    }
    for (const std::string& key : gone) {
      known_.erase(key);
      remove_(key);
    }
    seen_.clear();
  }

  void Upsert(simdjson::dom::element object) override {
    OnAlive();
    const std::string key = upsert_(object);
    if (key.empty()) {
      owner_.logger_.Log(Severity::kWarning, "object could not be read", {{"resource", name_}});
      return;
    }
    seen_.insert(key);
    known_.insert(key);
  }

  void Delete(simdjson::dom::element object) override {
    OnAlive();
    // Nodes and namespaces are known by name, the rest by UID; both are in metadata.
    for (const char* field : {"uid", "name"}) {
      std::string_view key;
      if (object["metadata"][field].get(key) == simdjson::SUCCESS &&
          known_.erase(std::string(key)) > 0) {
        remove_(std::string(key));
        return;
      }
    }
  }

  void OnSynced() override {
    if (synced_) return;
    synced_ = true;
    owner_.OnFirstSync();
  }

  void OnRestart(kube::RestartReason reason) override {
    owner_.metrics_.CountWatchRestart(name_, kube::Name(reason));
    owner_.logger_.V(2, "watch restarts", {{"resource", name_}, {"reason", kube::Name(reason)}});
  }

  void OnAlive() override { alive_ms_ = SteadyMs(); }

  std::int64_t alive_ms() const { return alive_ms_; }

 private:
  const std::string name_;
  Informers& owner_;
  const Upserter upsert_;
  const Deleter remove_;
  std::unordered_set<std::string> known_;
  std::unordered_set<std::string> seen_;
  bool synced_ = false;
  std::atomic<std::int64_t> alive_ms_ = SteadyMs();
};

Informers::Informers(kube::RestClient& client, Host& host, Metrics& metrics, Logger& logger,
                     std::function<void()> on_synced)
    : client_(client),
      host_(host),
      metrics_(metrics),
      logger_(logger),
      on_synced_(std::move(on_synced)) {
  using engine::Engine;
  using engine::TimePoint;
  const auto add = [this](std::string name, std::string path, auto decode, auto key, auto upsert,
                          auto remove) {
    kube::ReflectorConfig config;
    config.name = name;
    config.path = std::move(path);
    if (name == "pods") config.field_selector = "status.phase!=Succeeded,status.phase!=Failed";
    Add(std::move(config),
        std::make_unique<Sink>(
            name, *this,
            [this, decode, key, upsert](simdjson::dom::element json) -> std::string {
              auto object = decode(json);
              if (!object) return {};
              std::string id = key(object->meta);
              host_.Apply([&](Engine& e, TimePoint now) { upsert(e, std::move(*object), now); });
              return id;
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
      [](Engine& e, kube::Node n, TimePoint now) { e.OnNode(std::move(n), now); },
      [](Engine& e, const std::string& id, TimePoint now) { e.OnNodeDeleted(id, now); });
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
  // The API server resolves spec.priority itself; the classes are watched for their names only.
  add(
      "priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses",
      [](Json j) { return kube::DecodePriorityClass(j); }, by_name,
      [](Engine&, kube::PriorityClass, TimePoint) {},
      [](Engine&, const std::string&, TimePoint) {});
}

Informers::~Informers() { Stop(); }

void Informers::WatchPolicy(const std::string& ns, const std::string& name, PolicySink sink) {
  kube::ReflectorConfig config;
  config.name = "configmaps";
  config.path = "/api/v1/namespaces/" + ns + "/configmaps";
  config.field_selector = "metadata.name=" + name;
  Add(std::move(config), std::make_unique<Sink>(
                             "configmaps", *this,
                             [sink](simdjson::dom::element json) -> std::string {
                               auto object = kube::DecodeConfigMap(json);
                               if (!object) return {};
                               sink(*object);
                               return object->meta.uid;
                             },
                             // A deleted policy changes nothing: the last good one stays.
                             [](const std::string&) {}));
}

void Informers::Add(kube::ReflectorConfig config, std::unique_ptr<Sink> sink) {
  reflectors_.push_back(std::make_unique<kube::Reflector>(client_, std::move(config), *sink));
  sinks_.push_back(std::move(sink));
  ++waiting_;
}

void Informers::Start() {
  for (auto& reflector : reflectors_) {
    threads_.emplace_back([&reflector = *reflector](std::stop_token stop) { reflector.Run(stop); });
  }
}

void Informers::OnFirstSync() {
  if (--waiting_ == 0) on_synced_();
}

std::int64_t Informers::StalestMs() const {
  std::int64_t oldest = SteadyMs();
  for (const auto& sink : sinks_) oldest = std::min(oldest, sink->alive_ms());
  return SteadyMs() - oldest;
}

void Informers::Stop() {
  for (auto& thread : threads_) thread.request_stop();
  threads_.clear();
}

}  // namespace berth::server
