#include "server/serve.h"

#include <fmt/format.h>
#include <pthread.h>
#include <simdjson.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "config/decode.h"
#include "kube/client_config.h"
#include "kube/terminal.h"
#include "kube/writer.h"
#include "server/cli/exit_codes.h"
#include "server/crash_report.h"
#include "server/drivers/api_pages.h"
#include "server/drivers/embedded_cluster.h"
#include "server/drivers/host_driver.h"
#include "server/drivers/informers.h"
#include "server/drivers/kube_api.h"
#include "server/drivers/leadership.h"
#include "server/drivers/policy_source.h"
#include "server/drivers/usage_keeper.h"
#include "server/drivers/work_queue.h"
#include "server/ops/ops_auth.h"
#include "server/ops/ops_server.h"
#include "server/ops/policy_edit.h"
#include "server/ops/views.h"
#include "server/port_options.h"
#include "server/verbs/verb_server.h"
#include "server/version.h"

namespace berth::server {
namespace {

/// How old a page may be: too short for people to notice.
constexpr std::chrono::milliseconds kPageAge{1000};
constexpr std::int64_t kStaleMs = 180'000;
/// Larger clusters are served, too: then one call makes the tables larger.
constexpr std::size_t kExpectedPods = 80'000;
/// Long enough that a busy engine is not mistaken for one that hangs.
constexpr std::int64_t kHungMs = 15'000;

int Fail(int code, const std::string& message) {
  kube::Write(stderr, fmt::format("berth serve: {}\n", message));
  return code;
}

/// The exit code for a file that could not be used.
int CodeOf(const kube::FileError& error) { return error.unreadable ? kEnvironment : kBadInput; }

std::string Instance() {
  std::random_device random;
  return fmt::format("{:08x}", random());
}

/// The process's parts that live as long as it serves, in the order of construction: each part uses
/// earlier ones only from threads of its own, so that an early return destroys nothing in use.
class Service {
 public:
  Service(const ServeOptions& options, ServeSettings settings)
      : options_(options),
        settings_(std::move(settings)),
        logger_(options.log_format == "json" ? LogFormat::kJson : LogFormat::kText,
                options.verbosity),
        metrics_(ThisBuild()),
        decisions_({.path = options.decision_log, .inputs = options.decision_log_inputs}) {}

  int Run();

 private:
  std::expected<void, int> Connect();
  std::expected<config::PolicyConfiguration, int> LoadPolicy();
  std::expected<config::PolicyConfiguration, int> LoadPolicyConfigMap();
  void TellPolicyRefused(const std::string& errors);
  std::expected<void, int> Listen();
  void ServeOpsPages();
  std::string EngineProblem() const;
  std::string WatchProblem() const;
  void ApplyPolicy(config::PolicyConfiguration policy);
  void MakeInformers();
  void MakeLeadership();
  void StartDeciding();
  cluster::UsageRecord UsageNow() const;
  void Lead();
  void Follow();
  void Shutdown();

  const ServeOptions options_;
  const ServeSettings settings_;
  std::atomic<bool> draining_ = false;
  Logger logger_;
  Metrics metrics_;
  DecisionLog decisions_;
  Tenure tenure_;
  std::unique_ptr<kube::RestClient> client_;
  /// For the Lease only: a renewal never queues behind Bindings.
  std::unique_ptr<kube::RestClient> lease_client_;
  /// For the operations port's callers only: unknown clients can make it busy.
  std::unique_ptr<kube::RestClient> review_client_;
  std::unique_ptr<kube::Writer> writer_;
  std::unique_ptr<Api> api_;
  EmbeddedCluster* embedded_ = nullptr;
  std::unique_ptr<HostDriver> host_;
  std::unique_ptr<UsageKeeper> usage_;  ///< Null: there is no API server to keep it.
  std::unique_ptr<HttpServer> verb_server_;
  std::unique_ptr<PolicySource> policy_;
  WorkQueue chores_{/*threads=*/1, /*max_jobs=*/16};
  std::unique_ptr<Leadership> leadership_;
  std::unique_ptr<Informers> informers_;
  std::unique_ptr<OpsAuth> ops_auth_;
  std::unique_ptr<HttpServer> ops_server_;
  std::unique_ptr<HttpServer> health_server_;  ///< Null: health is on the operations port only.
};

std::expected<void, int> Service::Connect() {
  if (!options_.snapshot.empty()) {
    auto cluster = EmbeddedCluster::Load(options_.snapshot);
    if (!cluster) return std::unexpected(Fail(CodeOf(cluster.error()), cluster.error().message));
    embedded_ = cluster->get();
    api_ = std::move(*cluster);
    return {};
  }
  const auto config = options_.kubeconfig.empty() ? kube::LoadInCluster()
                                                  : kube::LoadKubeconfig(options_.kubeconfig);
  if (!config) return std::unexpected(Fail(kEnvironment, config.error()));
  auto client = kube::RestClient::Create(*config);
  if (!client) return std::unexpected(Fail(kEnvironment, client.error()));
  client_ = std::move(*client);
  auto lease_client = kube::RestClient::Create(*config);
  if (!lease_client) return std::unexpected(Fail(kEnvironment, lease_client.error()));
  lease_client_ = std::move(*lease_client);
  if (settings_.ops_auth) {
    auto review_client = kube::RestClient::Create(
        *config, {.max_calls = kReviewCalls, .body_limit = std::size_t{1} << 20});
    if (!review_client) return std::unexpected(Fail(kEnvironment, review_client.error()));
    review_client_ = std::move(*review_client);
  }
  writer_ = std::make_unique<kube::Writer>(*client_, "berth-" + Instance());
  api_ = std::make_unique<KubeApi>(*writer_, tenure_, metrics_, logger_);
  if (settings_.elects) tenure_.Close();  // Not yet.
  return {};
}

std::expected<config::PolicyConfiguration, int> Service::LoadPolicy() {
  policy_ = std::make_unique<PolicySource>(
      logger_, metrics_, LastGoodPolicy(client_.get(), options_.leader_elect_namespace, logger_),
      [this] { return tenure_.Holds(); });
  policy_->OnUpdate([this](const config::PolicyConfiguration& next) {
    return WhyHeld([this](const Part& part) { host_->LookInParts(part); }, next);
  });
  if (!options_.policy_configmap.empty()) {
    policy_->OnRefused([this](const std::string& errors) { TellPolicyRefused(errors); });
    return LoadPolicyConfigMap();
  }
  if (options_.policy_file.empty()) {
    metrics_.SetPolicyReloadSuccessful(true);
    return config::PolicyConfiguration{};
  }
  const auto yaml = ReadPolicyFile(options_.policy_file);
  if (!yaml) return std::unexpected(Fail(CodeOf(yaml.error()), yaml.error().message));
  auto policy = policy_->First(*yaml, options_.policy_file);
  if (!policy) return std::unexpected(Fail(kBadInput, policy.error()));
  return std::move(*policy);
}

/// Writes an Event on the ConfigMap, where the person who edited it will look. Only the leader
/// does: one is enough.
void Service::TellPolicyRefused(const std::string& errors) {
  if (!tenure_.Holds()) return;
  const auto slash = options_.policy_configmap.find('/');
  const auto now =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  const kube::EventRecord event{
      .name = fmt::format("{}.{:x}", options_.policy_configmap.substr(slash + 1),
                          now.time_since_epoch().count()),
      .regarding = {.kind = "ConfigMap",
                    .ns = options_.policy_configmap.substr(0, slash),
                    .name = options_.policy_configmap.substr(slash + 1),
                    .uid = {},
                    .resource_version = {}},
      .warning = true,
      .action = "Reload",
      .reason = "PolicyRefused",
      .note = "The last good policy stays in force. " + errors,
      .time = now};
  const auto result = writer_->CreateEvent(event, {.timeout = std::chrono::seconds(5)});
  if (result.outcome != kube::WriteOutcome::kDone) {
    logger_.V(1, "event not written", {{"reason", event.reason}, {"error", result.message}});
  }
}

std::expected<config::PolicyConfiguration, int> Service::LoadPolicyConfigMap() {
  const auto slash = options_.policy_configmap.find('/');
  kube::Request request;
  request.path = "/api/v1/namespaces/" + options_.policy_configmap.substr(0, slash) +
                 "/configmaps/" + options_.policy_configmap.substr(slash + 1);
  const auto response = client_->Do(request, {});
  if (!response) {
    return std::unexpected(Fail(kEnvironment, "reading the policy: " + response.error().message));
  }
  if (response->status == 404) {
    auto policy = policy_->FirstOfNone(options_.policy_configmap);
    if (policy) return std::move(*policy);
    return std::unexpected(Fail(kBadInput, "ConfigMap " + policy.error() + "; create it first"));
  }
  std::string yaml;
  if (response->Ok()) {
    simdjson::dom::parser parser;
    simdjson::dom::element object;
    std::string_view text;
    if (parser.parse(response->body).get(object) == simdjson::SUCCESS &&
        object["data"]["policy.yaml"].get(text) == simdjson::SUCCESS) {
      yaml = text;
    }
  }
  auto policy = policy_->First(yaml, options_.policy_configmap);
  if (!policy) {
    return std::unexpected(
        Fail(kBadInput, fmt::format("ConfigMap {} (HTTP {}), key policy.yaml: {}",
                                    options_.policy_configmap, response->status, policy.error())));
  }
  return std::move(*policy);
}

std::expected<void, int> Service::Listen() {
  auto verbs = PortOptions("verbs", settings_.verbs_tls, metrics_, logger_);
  verbs.max_connections = static_cast<std::size_t>(host_->Look([](const engine::Engine& e, auto) {
    return e.store().policy().gang.max_standing;
  }) + 128);
  // Decoding takes up to six times as much again: together less than the container's 1 GiB.
  verbs.max_bodies_bytes = std::size_t{96} << 20U;
  verb_server_ = std::make_unique<HttpServer>(std::move(verbs));
  ServeVerbs(*verb_server_, *host_, metrics_, logger_);
  ops_server_ =
      std::make_unique<HttpServer>(SmallPortOptions("ops", settings_.ops_tls, metrics_, logger_));
  if (settings_.health) {
    health_server_ =
        std::make_unique<HttpServer>(SmallPortOptions("health", std::nullopt, metrics_, logger_));
  }
  ServeOpsPages();
  const auto ops_port = ops_server_->Listen(settings_.ops.host, settings_.ops.port);
  if (!ops_port) return std::unexpected(Fail(kEnvironment, "--ops-listen: " + ops_port.error()));
  std::string health = "-";
  if (health_server_ != nullptr) {
    const auto opened = health_server_->Listen(settings_.health->host, settings_.health->port);
    if (!opened) return std::unexpected(Fail(kEnvironment, "--health-listen: " + opened.error()));
    health = fmt::format("{}:{}", settings_.health->host, *opened);
  }
  const auto port = verb_server_->Listen(settings_.verbs.host, settings_.verbs.port);
  if (!port) return std::unexpected(Fail(kEnvironment, "--listen: " + port.error()));
  logger_.Log(Severity::kInfo, "listening",
              {{"verbs", fmt::format("{}:{}", settings_.verbs.host, *port)},
               {"ops", fmt::format("{}:{}", settings_.ops.host, *ops_port)},
               {"health", health}});
  if (settings_.ops_auth && !settings_.ops_tls && !settings_.ops.loopback()) {
    logger_.Log(Severity::kWarning,
                "callers' tokens cross the network in plain text: give --ops-tls-cert-file");
  }
  if (settings_.verbs_tls && settings_.verbs_tls->client_ca_file.empty() &&
      !settings_.verbs.loopback()) {
    logger_.Log(Severity::kWarning,
                "whoever reaches the verbs' port can bind pods: give --client-ca-file");
  }
  return {};
}

/// Empty: the engine answers.
std::string Service::EngineProblem() const {
  const std::int64_t silent = host_->SilentMs();
  return silent > kHungMs ? fmt::format("the engine has not answered for {} s", silent / 1000)
                          : std::string();
}

/// Empty: every watch shows life, or there are no watches.
std::string Service::WatchProblem() const {
  return informers_ != nullptr && informers_->StalestMs() > kStaleMs
             ? "a watch has been silent for too long"
             : std::string();
}

void Service::ServeOpsPages() {
  OpsHandlers handlers;
  const HealthCheck engine{.name = "engine", .check = [this] { return EngineProblem(); }};
  handlers.livez = {{.name = "ping", .check = [] { return std::string(); }}, engine};
  handlers.readyz = {
      {.name = "informers-processed",
       .check =
           [this] {
             // Followers are ready too: they could take over at once.
             const bool ready = leadership_ ? informers_->synced() : host_->deciding();
             return ready ? std::string() : "the first lists have not been processed";
           }},
      {.name = "watches-alive", .check = [this] { return WatchProblem(); }},
      engine,
      {.name = "draining",
       .check = [this] { return draining_ ? std::string("shutting down") : std::string(); }}};
  handlers.configz = [this] {
    auto yaml = host_->Look(
        [](const engine::Engine& e, auto) { return config::EncodePolicy(e.store().policy()); });
    return HttpResponse{.body = std::move(yaml), .content_type = "application/yaml"};
  };
  handlers.debug["leadership"] = [this] {
    return HttpResponse{.body = leadership_ ? leadership_->StatusJson()
                                            : std::string(R"({"leading":true})")};
  };
  AddApiPages(*host_, kPageAge, handlers);
  // Gauges mirror the cluster at the moment of the scrape.
  handlers.before_metrics = [this] {
    host_->UpdateMetrics();
    if (!usage_) FeedUsage(UsageNow(), metrics_);
    if (informers_ != nullptr) {
      metrics_.SetSnapshotAge(static_cast<double>(informers_->StalestOfAllMs()) / 1000.0);
    }
  };
  if (settings_.ops_auth) {
    ops_auth_ = std::make_unique<OpsAuth>(
        [this](const kube::Request& request) -> std::expected<kube::Response, std::string> {
          auto response = review_client_->Do(request, {});
          if (!response) return std::unexpected(response.error().message);
          return std::move(*response);
        },
        metrics_, logger_);
    handlers.authorize = [this](const HttpRequest& request, const kube::AccessAttributes& wanted) {
      return ops_auth_->Refusal(request, wanted);
    };
  }
  if (health_server_ != nullptr) ServeHealth(*health_server_, handlers);
  ServeOps(*ops_server_, std::move(handlers), metrics_, ThisBuild());
}

void Service::ApplyPolicy(config::PolicyConfiguration policy) {
  host_->Apply(
      [&](engine::Engine& e, engine::TimePoint now) { e.OnPolicy(std::move(policy), now); });
}

void Service::MakeInformers() {
  if (settings_.elects) MakeLeadership();
  informers_ = std::make_unique<Informers>(*client_, *host_, metrics_, logger_, [this] {
    leadership_ ? leadership_->Start() : StartDeciding();
  });
  if (leadership_) {
    informers_->WatchPods([this](const kube::Pod& pod) { leadership_->See(pod); },
                          [this](const std::string& uid) { leadership_->SeeDeleted(uid); });
  }
  const auto slash = options_.policy_configmap.find('/');
  if (slash == std::string::npos) return;
  informers_->WatchPolicy(
      options_.policy_configmap.substr(0, slash), options_.policy_configmap.substr(slash + 1),
      [this](const kube::ConfigMap& map) {
        const auto it = map.data.find("policy.yaml");
        policy_->Update(it == map.data.end() ? "" : it->second, options_.policy_configmap,
                        [this](auto p) { ApplyPolicy(std::move(p)); });
      },
      [this] { policy_->Gone(options_.policy_configmap); });
}

/// A value that the pod's manifest passes to us; empty outside of a cluster.
std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

void Service::MakeLeadership() {
  LeadershipOptions options{.lease_ns = options_.leader_elect_namespace,
                            .election = settings_.election,
                            .pod_ns = Environment("POD_NAMESPACE"),
                            .pod_name = Environment("POD_NAME")};
  const std::string where = options.pod_name.empty() ? Environment("HOSTNAME") : options.pod_name;
  options.election.identity = (where.empty() ? "berth" : where) + "_" + Instance();
  leadership_ = std::make_unique<Leadership>(
      std::move(options), *lease_client_, tenure_, logger_,
      Leadership::Duties{
          .lead = [this] { Lead(); },
          .follow = [this] { Follow(); },
          .fit = [this] { return EngineProblem().empty() && WatchProblem().empty(); }});
}

/// From now on the engine decides, and what queues use is counted.
void Service::StartDeciding() {
  host_->Start();
  if (usage_) return usage_->Begin();
  host_->Apply([](engine::Engine& e, engine::TimePoint now) { e.BeginUsage({}, now); });
}

cluster::UsageRecord Service::UsageNow() const {
  return host_->Look([](const engine::Engine& e, auto now) {
    return e.store().UsageUntil(now).value_or(cluster::UsageRecord());
  });
}

void Service::Lead() {
  StartDeciding();
  metrics_.SetLeader(true);
  // Not on this thread: an API server that does not answer would keep us from ending the term.
  chores_.Push("", [this] {
    policy_->Keep();
    if (const auto errors = policy_->last_error(); !errors.empty()) TellPolicyRefused(errors);
  });
}

void Service::Follow() {
  if (usage_) usage_->End();
  host_->Resign();
  metrics_.SetLeader(false);
  verb_server_->CloseIdle();  // kube-scheduler's next call then goes to the pod that the Service
                              // selects
}

/// In this order: what was used is kept; nothing new is begun; parked binds fail at once; what is
/// under way ends; the next leader may begin; the connections end, so that kube-scheduler connects
/// to the next leader.
void Service::Shutdown() {
  draining_ = true;
  if (usage_) usage_->End();
  if (leadership_) leadership_->Leave();
  host_->Stop();
  metrics_.SetLeader(false);
  if (leadership_) leadership_->ReleaseLease();
  verb_server_->Drain(std::chrono::seconds(5));
  ops_server_->Drain(std::chrono::seconds(1));
  if (health_server_ != nullptr) health_server_->Drain(std::chrono::seconds(1));
  if (informers_) informers_->Stop();
  logger_.Log(Severity::kInfo, "stopped");
  logger_.Flush();
}

int Service::Run() {
  if (!decisions_.error().empty()) {
    return Fail(kEnvironment, "--decision-log: " + decisions_.error());
  }
  if (const auto connected = Connect(); !connected) return connected.error();
  auto policy = LoadPolicy();
  if (!policy) return policy.error();
  host_ = std::make_unique<HostDriver>(std::move(*policy),
                                       engine::Options{.instance = Instance(),
                                                       .explain_decisions = decisions_.enabled(),
                                                       .expected_pods = kExpectedPods},
                                       *api_, metrics_, logger_, decisions_, SteadyClock(),
                                       [this] { return tenure_.Holds(); });
  if (client_ != nullptr) {
    usage_ =
        std::make_unique<UsageKeeper>(*host_, *client_, tenure_, options_.leader_elect_namespace,
                                      metrics_, logger_, UsageKeeper::Pace());
  }
  metrics_.SetLeader(!settings_.elects);
  if (!options_.policy_file.empty()) {
    policy_->WatchFile(options_.policy_file, [this](auto p) { ApplyPolicy(std::move(p)); });
  }
  if (client_ != nullptr) MakeInformers();
  if (const auto listening = Listen(); !listening) return listening.error();
  if (informers_) {
    informers_->Start();
  } else {
    embedded_->Connect(*host_);
    StartDeciding();
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  int signal = 0;
  sigwait(&signals, &signal);
  logger_.Log(Severity::kInfo, "signal received", {{"signal", signal}});
  Shutdown();
  return 0;
}

}  // namespace

int Serve(const ServeOptions& options) {
  // Every thread inherits the mask, so that the signal waits for sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  ReportCrashes();
  auto settings = CheckOptions(options);
  if (!settings) return Fail(kUsage, settings.error());
  Service service(options, std::move(*settings));
  return service.Run();
}

}  // namespace berth::server
