#include "server/demo/demo_world.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <set>
#include <thread>

#include "cluster/plan_claim.h"
#include "kube/decode.h"
#include "server/cli/exit_codes.h"
#include "server/drivers/api_pages.h"
#include "server/ops/ops_server.h"
#include "server/verbs/verb_server.h"
#include "server/version.h"

namespace berth::server {
namespace {

constexpr const char* kRackLabel = "cloud.provider.com/topology-rack";
constexpr std::size_t kMaxConnections = 1024;
constexpr std::chrono::milliseconds kPoll{10};
/// Jobs of the demo run for seconds: engine::Options::pods_end as short for them.
constexpr engine::TimePoint kPodsEnd = 20;

std::int64_t GpusOf(const kube::Node& node) {
  const auto it = node.allocatable.find(kGpu);
  return it == node.allocatable.end() ? 0 : it->second / 1000;
}

std::expected<std::unique_ptr<kube::RestClient>, std::string> ClientOf(std::uint16_t port) {
  kube::ClientConfig config;
  config.server = fmt::format("http://127.0.0.1:{}", port);
  return kube::RestClient::Create(
      std::move(config),
      {.max_calls = static_cast<int>(kMaxConnections), .user_agent = "kube-scheduler (model)"});
}

}  // namespace

std::expected<std::unique_ptr<DemoWorld>, DemoWorld::Error> DemoWorld::Create(
    const WorldOptions& options) {
  std::unique_ptr<DemoWorld> world(new DemoWorld());
  if (auto error = world->Wire(options)) return std::unexpected(std::move(*error));
  return world;
}

DemoWorld::~DemoWorld() { Stop(); }

std::optional<DemoWorld::Error> DemoWorld::Wire(const WorldOptions& options) {
  if (options.cluster.empty()) {
    cluster_ = std::move(*EmbeddedCluster::Parse(kThreeRacks, "the built-in cluster"));
  } else {
    auto cluster = EmbeddedCluster::Load(options.cluster);
    if (!cluster) {
      const int code = cluster.error().unreadable ? kEnvironment : kBadInput;
      return Error{code, cluster.error().message};
    }
    cluster_ = std::move(*cluster);
  }
  // The demo creates jobs of its own: the recorded ones would block them for ever.
  cluster_->DropPods([](const kube::Pod& pod) {
    return pod.node_name.empty() || pod.spec->requests.contains(kGpu);
  });
  for (const kube::Node& node : cluster_->Nodes()) {
    gpus_ += static_cast<int>(GpusOf(node));
    auditor_.AddNode(node.meta.name, GpusOf(node));
    const auto rack = node.meta.labels.find(kRackLabel);
    rack_of_[node.meta.name] = rack == node.meta.labels.end() ? std::string() : rack->second;
  }
  if (gpus_ == 0) return Error{kBadInput, "no node of the cluster has nvidia.com/gpu"};
  const auto policy = DemoPolicy(gpus_);
  for (const config::Queue& queue : policy.queues) {
    auditor_.AddQueue(queue.name,
                      {.quota = queue.quota.at(kGpu) / 1000, .limit = queue.limit.at(kGpu) / 1000});
  }
  logger_ = options.verbose
                ? std::make_unique<Logger>(LogFormat::kText, 2)
                : std::make_unique<Logger>(LogFormat::kText, 0, [](std::string_view) {});
  metrics_ = std::make_unique<Metrics>(ThisBuild());
  decisions_ = std::make_unique<DecisionLog>(
      DecisionLogOptions{.path = options.decision_log, .inputs = true});
  if (!decisions_->error().empty()) return Error{kEnvironment, decisions_->error()};
  host_ = std::make_unique<HostDriver>(
      policy,
      engine::Options{
          .instance = "demo", .explain_decisions = decisions_->enabled(), .pods_end = kPodsEnd},
      *cluster_, *metrics_, *logger_, *decisions_);
  if (auto error = Listen()) return error;
  scheduler_ = std::make_unique<SchedulerDriver>(*cluster_, *verbs_, auditor_, options.speed);
  cluster_->Watch([this](const kube::Pod& pod, bool gone) { OnPod(pod, gone); });
  cluster_->WatchEvents([this](const engine::EmitEvent& event) {
    const std::scoped_lock lock(mutex_);
    evictions_.OnEvent(event);
  });
  cluster_->Connect(*host_);
  host_->Start();
  return std::nullopt;
}

std::optional<DemoWorld::Error> DemoWorld::Listen() {
  HttpServerOptions verb_options;
  verb_options.max_connections = kMaxConnections + 64;
  verb_server_ = std::make_unique<HttpServer>(std::move(verb_options));
  ServeVerbs(*verb_server_, *host_, *metrics_, *logger_);
  const auto verbs = verb_server_->Listen("127.0.0.1", 0);
  if (!verbs) return Error{kEnvironment, verbs.error()};
  ops_server_ = std::make_unique<HttpServer>();
  OpsHandlers handlers;
  AddApiPages(*host_, std::chrono::milliseconds(0), handlers);
  ServeOps(*ops_server_, std::move(handlers), *metrics_, ThisBuild());
  const auto ops = ops_server_->Listen("127.0.0.1", 0);
  if (!ops) return Error{kEnvironment, ops.error()};
  auto verb_client = ClientOf(*verbs);
  auto ops_client = ClientOf(*ops);
  if (!verb_client || !ops_client) return Error{kEnvironment, "no HTTP client"};
  verbs_ = std::move(*verb_client);
  ops_ = std::move(*ops_client);
  return std::nullopt;
}

std::size_t DemoWorld::racks() const {
  std::set<std::string> racks;
  for (const auto& [node, rack] : rack_of_) racks.insert(rack);
  return racks.size();
}

// --- Jobs ----------------------------------------------------------------------------------------

void DemoWorld::Start(std::vector<DemoJob> jobs) {
  for (DemoJob& job : jobs) Submit(std::move(job));
  start_ = std::chrono::steady_clock::now();
  scheduler_->Start();
}

void DemoWorld::Submit(DemoJob job) {
  const std::scoped_lock lock(mutex_);
  due_.push({.at = job.at_ms, .job = jobs_.size()});
  if (job.late > 0 && job.late_ms >= 0) {
    due_.push(
        {.at = job.at_ms + job.late_ms, .job = jobs_.size(), .what = Due::What::kLateMembers});
  }
  jobs_.push_back({.job = std::move(job)});
}

std::int64_t DemoWorld::now() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start_)
      .count();
}

/// Creates the job's pods `from` to `to`, as its controller would.
void DemoWorld::Create(const DemoJob& job, int from, int to) {
  for (int index = from; index < to; ++index) {
    const std::int64_t created = SystemClock();
    simdjson::dom::parser parser;
    auto pod = kube::DecodePod(DemoPod(job, index, created).dump(), parser);
    if (!pod) continue;
    pod->meta.creation = created;  // the API's timestamps have whole seconds, which is too coarse
                                   // here
    auditor_.AddPod({.uid = pod->meta.uid,
                     .queue = job.team,
                     .workload = job.WorkloadKey(),
                     .gang = job.gang() ? job.name : std::string(),
                     .min_member = job.pods,
                     .priority = job.priority,
                     .gpus = job.whole_node ? 1 : job.gpus,
                     .whole_node = job.whole_node});
    cluster_->PutPod(std::move(*pod));
  }
}

void DemoWorld::Tick(bool finish) {
  if (finish) EndJobs();
  struct Batch {
    DemoJob job;
    int from = 0;
    int to = 0;
  };
  std::vector<Batch> batches;
  {
    const std::scoped_lock lock(mutex_);
    const std::int64_t time = now();
    for (; !due_.empty() && due_.top().at <= time; due_.pop()) {
      const Due& one = due_.top();
      JobState& state = jobs_[one.job];
      const int first = state.job.pods - state.job.late;
      const bool late = one.what == Due::What::kLateMembers;
      if (!late) state.submitted = time;
      batches.push_back({state.job, late ? first : 0, late ? state.job.pods : first});
      for (int i = batches.back().from; i < batches.back().to; ++i) {
        members_[state.job.PodUid(i)] = {.job = one.job, .bound = false};
        ++state.live;
      }
    }
  }
  for (const Batch& batch : batches) Create(batch.job, batch.from, batch.to);
}

void DemoWorld::EndJobs() {
  std::vector<std::string> over;
  {
    const std::scoped_lock lock(mutex_);
    const std::int64_t time = now();
    for (JobState& state : jobs_) {
      if (!state.running() || time - state.started < state.job.run_ms) continue;
      state.ended = time;
      for (int i = 0; i < state.job.pods; ++i) over.push_back(state.job.PodUid(i));
    }
  }
  for (const std::string& uid : over) cluster_->DeletePod(uid);
}

/// Acts as the kubelets: a job's clock runs from the moment when all its members are bound.
void DemoWorld::OnPod(const kube::Pod& pod, bool gone) {
  const auto mark = cluster::EvictionMarkOf(pod);
  if (gone) {
    if (mark) auditor_.OnEvicted(pod.meta.uid, mark->workload);
    auditor_.OnGone(pod.meta.uid);
  } else if (!pod.node_name.empty()) {
    auditor_.OnBound(pod.meta.uid, pod.node_name);
  }
  scheduler_->OnPod(pod, gone);
  const std::scoped_lock lock(mutex_);
  const auto it = members_.find(pod.meta.uid);
  if (it == members_.end()) return;
  JobState& state = jobs_[it->second.job];
  if (gone) {
    const std::size_t job = it->second.job;
    members_.erase(it);
    if (mark && state.ended < 0) Evicted(state, mark->workload);
    if (--state.live == 0 && state.evicted && state.ended < 0) BeginAgain(job);
  } else if (!pod.node_name.empty() && !std::exchange(it->second.bound, true)) {
    state.racks.insert(rack_of_.at(pod.node_name));
    if (++state.bound == state.job.pods) state.started = now();
  }
}

/// A pod of the job was evicted: the first one is noted.
void DemoWorld::Evicted(JobState& state, const std::string& workload) {
  if (std::exchange(state.evicted, true)) return;
  const auto other =
      std::ranges::find(jobs_, workload, [](const JobState& s) { return s.job.WorkloadKey(); });
  evictions_.OnEvicted(now(), state.job, other == jobs_.end() ? DemoJob{} : other->job, workload);
}

/// Acts as the job's controller: all pods of the job were evicted, and new ones come.
void DemoWorld::BeginAgain(std::size_t job) {
  JobState& state = jobs_[job];
  state.evicted = false;
  ++state.evictions;
  ++state.job.round;
  state.job.late = 0;
  state.started = -1;
  state.bound = 0;
  state.racks.clear();
  due_.push({.at = now(), .job = job});
}

std::vector<JobEviction> DemoWorld::evictions() const {
  const std::scoped_lock lock(mutex_);
  return evictions_.Evictions();
}

std::vector<JobState> DemoWorld::jobs() const {
  const std::scoped_lock lock(mutex_);
  std::vector<JobState> submitted;
  for (const JobState& state : jobs_) {
    if (state.submitted >= 0) submitted.push_back(state);
  }
  return submitted;
}

void DemoWorld::Settle(std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPoll);
    if (scheduler_->Idle() && auditor_.PartlyBound().empty()) return;
  }
}

void DemoWorld::Stop() {
  if (std::exchange(stopped_, true) || !host_) return;
  if (scheduler_) scheduler_->Stop();
  host_->Stop();  // ends the parked binds
  verb_server_->Drain(std::chrono::seconds(2));
  ops_server_->Drain(std::chrono::seconds(1));
}

nlohmann::ordered_json DemoWorld::Page(const std::string& path, const std::string& pod) const {
  kube::Request request;
  request.path = path;
  if (!pod.empty()) request.query = {{"pod", pod}};
  const auto response = ops_->Do(request, {});
  if (!response || !response->Ok()) return nlohmann::ordered_json::object();
  auto page = nlohmann::ordered_json::parse(response->body, nullptr, false);
  return page.is_object() ? page : nlohmann::ordered_json::object();
}

}  // namespace berth::server
