#include "server/drivers/dialect_informers.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <utility>

#include "cluster/dialects.h"

namespace berth::server {
namespace {

kube::Request Get(std::string path) {
  kube::Request request;
  request.path = std::move(path);
  request.timeout = std::chrono::seconds(10);
  return request;
}

/// Whether an APIResourceList has the resource.
bool Lists(const std::string& body, std::string_view plural) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::array resources;
  if (parser.parse(body).get(root) != simdjson::SUCCESS ||
      root["resources"].get_array().get(resources) != simdjson::SUCCESS) {
    return false;
  }
  for (const auto resource : resources) {
    std::string_view name;
    if (resource["name"].get(name) == simdjson::SUCCESS && name == plural) return true;
  }
  return false;
}

std::size_t Index(kube::DialectKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

/// One kind that is served. Destroying it stops the reflector; the sink keeps its objects.
struct DialectInformers::Watch {
  Watch(kube::RestClient& client, kube::ReflectorConfig config, ObjectSink& sink,
        std::string served)
      : version(std::move(served)),
        reflector(client, std::move(config), sink),
        thread([this](const std::stop_token& stop) { reflector.Run(stop); }) {}

  const std::string version;
  kube::Reflector reflector;
  std::jthread thread;
};

DialectInformers::DialectInformers(kube::RestClient& client, HostDriver& host, Metrics& metrics,
                                   Logger& logger, std::function<void()> on_synced,
                                   kube::Duration every)
    : client_(client),
      host_(host),
      metrics_(metrics),
      logger_(logger),
      every_(every),
      on_synced_(std::move(on_synced)) {
  for (const kube::DialectResource& resource : kube::kDialectResources) {
    kinds_[Index(resource.kind)].sink = MakeSink(resource);
  }
}

std::unique_ptr<ObjectSink> DialectInformers::MakeSink(const kube::DialectResource& resource) {
  const kube::DialectKind kind = resource.kind;
  auto sink = std::make_unique<ObjectSink>(
      resource.Name(), metrics_, logger_,
      [this, kind](simdjson::dom::element json) -> Upserted {
        auto object = kube::DecodeDialectObject(kind, json);
        if (!object) return {.problem = object.error().ToString()};
        Upserted upserted{.key = object->uid};
        host_.Apply([&](engine::Engine& e, engine::TimePoint now) {
          e.OnDialectObject(std::move(*object), now);
        });
        return upserted;
      },
      [this](const std::string& uid) {
        host_.Apply(
            [&](engine::Engine& e, engine::TimePoint now) { e.OnDialectObjectDeleted(uid, now); });
      });
  sink->OnFirstSync([this, kind] { Settle(kind); });
  sink->OnEachRestart([this, kind](kube::RestartReason reason) {
    // Missing rights, or a conversion webhook that is down: Berth must start without the kind.
    if (reason == kube::RestartReason::kRefused || reason == kube::RestartReason::kServerError ||
        reason == kube::RestartReason::kMalformed) {
      Settle(kind);
    }
  });
  return sink;
}

DialectInformers::~DialectInformers() { Stop(); }

void DialectInformers::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void DialectInformers::Stop() {
  thread_ = {};
  for (Kind& kind : kinds_) kind.watch.reset();
}

std::int64_t DialectInformers::StalestMs() const {
  std::int64_t stalest = 0;
  for (const Kind& kind : kinds_) stalest = std::max(stalest, kind.sink->SilentMs());
  return stalest;
}

void DialectInformers::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    // Nothing is served before the first discovery has worked.
    const auto pause = Discover(stop) ? every_ : every_ / 10;
    wake.wait_for(lock, stop, pause, [] { return false; });
  }
}

/// True: every kind was asked for. If the API server gave no answer, nothing changes.
bool DialectInformers::Discover(const std::stop_token& stop) {
  bool complete = true;
  for (const kube::DialectResource& resource : kube::kDialectResources) {
    const auto version = Wanted(resource.kind) ? ServedVersion(resource, stop) : std::string();
    if (stop.stop_requested()) return false;
    if (version) {
      Follow(resource, *version);
    } else {
      complete = false;
      logger_.V(1, "discovery failed", {{"resource", resource.Name()}, {"error", version.error()}});
    }
  }
  if (complete) {
    const std::scoped_lock lock(mutex_);
    discovered_ = true;
  }
  TellSynced();
  return complete;
}

/// Empty: no version that is known here is served.
std::expected<std::string, std::string> DialectInformers::ServedVersion(
    const kube::DialectResource& resource, const std::stop_token& stop) {
  for (const std::string_view version : resource.versions) {
    if (version.empty()) break;
    const auto response =
        client_.Do(Get(fmt::format("/apis/{}/{}", resource.group, version)), stop);
    if (!response) return std::unexpected(response.error().message);
    if (response->Ok() && Lists(response->body, resource.plural)) return std::string(version);
    // 403: discovery is forbidden to us, which a retry would not change.
    if (!response->Ok() && response->status != 404 && response->status != 403) {
      return std::unexpected(fmt::format("HTTP {}", response->status));
    }
  }
  return std::string();
}

bool DialectInformers::Wanted(kube::DialectKind kind) const {
  const config::Dialects dialects =
      host_.Look([](const engine::Engine& e, auto) { return e.store().policy().dialects; });
  return cluster::ReadsKind(dialects, kind);
}

/// Watches the kind in `version`; if that is empty, stops watching, and its objects are gone.
void DialectInformers::Follow(const kube::DialectResource& resource, const std::string& version) {
  Kind& kind = kinds_[Index(resource.kind)];
  if (version == (kind.watch ? kind.watch->version : std::string())) return;
  kind.watch.reset();
  if (version.empty()) {
    kind.sink->Clear();
    Settle(resource.kind);
    logger_.Log(Severity::kInfo, "dialect: not served any more", {{"resource", resource.Name()}});
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    unsettled_[Index(resource.kind)] = on_synced_ != nullptr;
  }
  logger_.Log(Severity::kInfo, "dialect: watching",
              {{"resource", resource.Name()}, {"version", version}});
  kube::ReflectorConfig config;
  config.name = resource.Name();
  config.path = fmt::format("/apis/{}/{}/{}", resource.group, version, resource.plural);
  kind.watch = std::make_unique<Watch>(client_, std::move(config), *kind.sink, version);
}

/// The first list of the kind is delivered, or cannot be had: nothing waits for it any more.
void DialectInformers::Settle(kube::DialectKind kind) {
  {
    const std::scoped_lock lock(mutex_);
    unsettled_[Index(kind)] = false;
  }
  TellSynced();
}

void DialectInformers::TellSynced() {
  std::function<void()> synced;
  {
    const std::scoped_lock lock(mutex_);
    const bool settled = std::ranges::none_of(unsettled_, std::identity());
    if (discovered_ && settled) synced = std::exchange(on_synced_, nullptr);
  }
  if (synced) synced();
}

}  // namespace berth::server
