#include "server/demo/demo_scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/verbs/extender_client.h"

namespace berth::server {
namespace {

using nlohmann::json;

enum Verb : std::size_t { kFilter, kPrioritize, kBind };
constexpr std::array<const char*, 3> kVerbs{"filter", "prioritize", "bind"};
constexpr int kMaxBackoffDoublings = 3;
constexpr std::size_t kMaxFailures = 20;
/// kube-scheduler's httpTimeout, as Berth's own configuration sets it.
constexpr kube::Duration kHttpTimeout{30'000};

/// Whether the change of a pod makes kube-scheduler try it again: a nomination does not.
bool WakesItself(const kube::Pod& before, const kube::Pod& after) {
  return before.meta.labels != after.meta.labels ||
         before.meta.annotations != after.meta.annotations ||
         before.scheduling_gates != after.scheduling_gates ||
         before.pod_scheduled != after.pod_scheduled;
}

std::string Message(std::size_t nodes, const std::map<std::string, int>& refused) {
  std::string text = fmt::format("0/{} nodes are available:", nodes);
  const char* separator = " ";
  for (const auto& [reason, count] : refused) {
    text += fmt::format("{}{} {}", std::exchange(separator, ", "), count, reason);
  }
  return text + ".";
}

}  // namespace

std::int64_t Quantile(std::vector<std::int64_t> samples, double p) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  const auto last = static_cast<double>(samples.size() - 1);
  return samples[static_cast<std::size_t>(last * p + 0.5)];
}

SchedulerModel::SchedulerModel(EmbeddedCluster& cluster, kube::RestClient& verbs, Auditor& auditor,
                               Millis backoff)
    : cluster_(cluster), verbs_(verbs), auditor_(auditor), backoff_(backoff) {
  for (std::size_t i = 0; i < kVerbs.size(); ++i) times_[i].verb = kVerbs[i];
  for (const kube::Node& node : cluster.Nodes()) {
    nodes_[node.meta.name] = {.allocatable = node.allocatable,
                              .requested = {},
                              .pods = 0,
                              .unschedulable = node.unschedulable};
  }
}

SchedulerModel::~SchedulerModel() { Stop(); }

void SchedulerModel::Know(const std::string& uid, json pod) {
  pod["spec"].erase("schedulingGates");  // the pod that is sent has none any more
  const std::scoped_lock lock(mutex_);
  posted_[uid] = std::move(pod);
}

void SchedulerModel::Start() {
  loop_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void SchedulerModel::Stop() {
  stop_calls_.request_stop();
  loop_.request_stop();
  if (loop_.joinable()) loop_.join();
  std::list<BindThread> binds;
  {
    const std::scoped_lock lock(mutex_);
    binds.swap(binds_);
  }
  for (BindThread& bind : binds) bind.thread.join();
}

// --- The watch -----------------------------------------------------------------------------------

void SchedulerModel::Account(const Entry& entry, int sign) {
  const auto it = nodes_.find(entry.node);
  if (it == nodes_.end()) return;
  for (const auto& [name, amount] : entry.pod.spec->requests) {
    it->second.requested[name] += sign * amount;
  }
  it->second.pods += sign;
}

void SchedulerModel::Activate(const std::string& uid, Entry& entry) {
  if (entry.place == Place::kBackoff && entry.after_error) return;
  entry.place = Place::kActive;
  active_.push_back(uid);
}

/// An assigned pod was added, changed or deleted: every refused pod is tried again.
void SchedulerModel::MoveAll() {
  const auto now = std::chrono::steady_clock::now();
  for (auto& [uid, entry] : pods_) {
    if (entry.place == Place::kTrying) entry.moved = true;
    if (entry.place != Place::kAsleep) continue;
    entry.place = Place::kBackoff;
    entry.after_error = false;
    entry.due = now + backoff_ * (1 << std::min(entry.attempts, kMaxBackoffDoublings));
  }
}

void SchedulerModel::OnPod(const kube::Pod& pod, bool gone) {
  const std::scoped_lock lock(mutex_);
  const auto [it, fresh] = pods_.try_emplace(pod.meta.uid);
  Entry& entry = it->second;
  const bool assigned = entry.place == Place::kBound;
  if (gone) {
    Account(entry, -1);
    pods_.erase(it);
    std::erase(active_, pod.meta.uid);
    posted_.erase(pod.meta.uid);
    if (assigned) MoveAll();
  } else if (!pod.node_name.empty()) {
    if (entry.node != pod.node_name) {
      Account(entry, -1);
      entry.node = pod.node_name;
      entry.pod = pod;
      Account(entry, 1);
    }
    entry.pod = pod;
    entry.place = Place::kBound;
    MoveAll();
  } else if (fresh || entry.place == Place::kGated) {
    entry.pod = pod;
    entry.place = Place::kGated;
    if (pod.scheduling_gates.empty()) Activate(pod.meta.uid, entry);
  } else {
    const bool wakes = WakesItself(entry.pod, pod);
    entry.pod = pod;
    if (wakes && entry.place == Place::kTrying) entry.moved = true;
    if (wakes && (entry.place == Place::kAsleep || entry.place == Place::kBackoff)) {
      Activate(pod.meta.uid, entry);
    }
  }
  changed_.notify_all();
}

// --- The loop ------------------------------------------------------------------------------------

/// The next pod to try. A pod in backoff is taken early if there is no other, unless an error put
/// it there (SchedulerPopFromBackoffQ).
std::string SchedulerModel::Next(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!active_.empty()) {
      std::string uid = std::move(active_.front());
      active_.pop_front();
      return uid;
    }
    auto first = pods_.end();
    auto due = std::chrono::steady_clock::now() + Millis(500);
    for (auto it = pods_.begin(); it != pods_.end(); ++it) {
      if (it->second.place != Place::kBackoff) continue;
      if (it->second.after_error && it->second.due > std::chrono::steady_clock::now()) {
        due = std::min(due, it->second.due);
      } else if (first == pods_.end() || it->second.due < first->second.due) {
        first = it;
      }
    }
    if (first != pods_.end()) return first->first;
    changed_.wait_until(lock, stop, due, [this] { return !active_.empty(); });
  }
  return {};
}

void SchedulerModel::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const std::string uid = Next(stop);
    if (!uid.empty()) Cycle(uid);
  }
}

void SchedulerModel::Cycle(const std::string& uid) {
  kube::Pod pod;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = pods_.find(uid);
    if (it == pods_.end()) return;
    if (it->second.place != Place::kActive && it->second.place != Place::kBackoff) return;
    it->second.place = Place::kTrying;
    it->second.moved = false;
    ++it->second.attempts;
    pod = it->second.pod;
    trying_ = true;
  }
  const Outcome outcome = Schedule(pod);
  if (outcome.node.empty()) {
    Failed(uid, outcome);
  } else {
    Assume(uid, outcome.node);
    BindAsync(pod, outcome.node);
  }
  const std::scoped_lock lock(mutex_);
  trying_ = false;
}

SchedulerModel::Outcome SchedulerModel::Schedule(const kube::Pod& pod) {
  Outcome outcome;
  std::map<std::string, int> refused;
  auto offered = Feasible(pod, refused);
  const auto nominated = std::ranges::find(offered, pod.nominated_node);
  if (!pod.nominated_node.empty() && nominated != offered.end()) {
    std::map<std::string, int> ignored;
    const auto kept = AskFilter(pod, {*nominated}, ignored, outcome);
    if (!kept.empty()) {
      outcome.node = kept.front();
      return outcome;
    }
    outcome = {};  // an error there is only logged
  }
  std::vector<std::string> kept;
  if (!offered.empty()) kept = AskFilter(pod, offered, refused, outcome);
  if (outcome.error) return outcome;
  if (kept.empty()) {
    outcome.message = Message(nodes_.size(), refused);
    return outcome;
  }
  outcome.node = kept.size() == 1 ? kept.front() : AskPrioritize(pod, kept);
  return outcome;
}

// --- Plugins: NodeUnschedulable and NodeResourcesFit, nominated pods counted ---------------------

bool SchedulerModel::Fits(const kube::Pod& pod, const std::string& name, const Node& node,
                          std::string& why) const {
  if (node.unschedulable) {
    why = "node(s) were unschedulable";
    return false;
  }
  kube::ResourceList used = node.requested;
  for (const auto& [uid, entry] : pods_) {
    if (uid == pod.meta.uid || entry.pod.nominated_node != name || !entry.node.empty() ||
        entry.place == Place::kGated || entry.pod.priority < pod.priority) {
      continue;
    }
    for (const auto& [resource, amount] : entry.pod.spec->requests) used[resource] += amount;
  }
  for (const auto& [resource, amount] : pod.spec->requests) {
    const auto there = node.allocatable.find(resource);
    const std::int64_t allocatable = there == node.allocatable.end() ? 0 : there->second;
    if (amount == 0 || used[resource] + amount <= allocatable) continue;
    why = "Insufficient " + resource;
    return false;
  }
  const auto slots = node.allocatable.find("pods");
  if (slots != node.allocatable.end() && node.pods >= slots->second) {
    why = "Too many pods";
    return false;
  }
  return true;
}

std::vector<std::string> SchedulerModel::Feasible(const kube::Pod& pod,
                                                  std::map<std::string, int>& refused) const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) {
    std::string why;
    if (Fits(pod, name, node, why)) {
      names.push_back(name);
    } else {
      ++refused[why];
    }
  }
  return names;
}

// --- Verbs ---------------------------------------------------------------------------------------

std::string SchedulerModel::ArgsFor(const kube::Pod& pod,
                                    const std::vector<std::string>& nodes) const {
  const std::scoped_lock lock(mutex_);
  const auto it = posted_.find(pod.meta.uid);
  json sent = it == posted_.end() ? json::object() : it->second;
  if (!pod.nominated_node.empty()) sent["status"]["nominatedNodeName"] = pod.nominated_node;
  return EncodeExtenderArgs(sent.dump(), nodes);
}

std::optional<std::string> SchedulerModel::Post(std::size_t verb, std::string body) {
  const kube::Request request{.method = "POST",
                              .path = std::string("/") + kVerbs[verb],
                              .query = {},
                              .body = std::move(body),
                              .timeout = kHttpTimeout};
  const auto start = std::chrono::steady_clock::now();
  auto response = verbs_.Do(request, stop_calls_.get_token());
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);
  const std::scoped_lock lock(mutex_);
  if (response && response->status == 200) {
    times_[verb].micros.push_back(took.count());
    return std::move(response->body);
  }
  if (!stop_calls_.stop_requested() && failures_.size() < kMaxFailures) {
    failures_.push_back(fmt::format(
        "{}: {}", kVerbs[verb],
        response ? fmt::format("HTTP {}", response->status) : response.error().message));
  }
  return std::nullopt;
}

std::vector<std::string> SchedulerModel::AskFilter(const kube::Pod& pod,
                                                   const std::vector<std::string>& offered,
                                                   std::map<std::string, int>& refused,
                                                   Outcome& outcome) {
  const auto body = Post(kFilter, ArgsFor(pod, offered));
  auto answer = body ? DecodeFilterResult(*body, offered) : std::unexpected("the call failed");
  if (!answer) {
    outcome = {.node = {}, .message = std::move(answer.error()), .error = true};
    return {};
  }
  for (const auto& [node, reason] : answer->refused) ++refused[reason];
  return std::move(answer->kept);
}

std::string SchedulerModel::AskPrioritize(const kube::Pod& pod,
                                          const std::vector<std::string>& nodes) {
  std::string best = nodes.front();
  const auto body = Post(kPrioritize, ArgsFor(pod, nodes));
  const auto scores = body ? DecodePriorities(*body) : std::unexpected("the call failed");
  if (!scores) return best;  // kube-scheduler goes on without them
  std::int64_t top = -1;
  for (const auto& [host, score] : *scores) {
    if (score > top) best = host;
    top = std::max(top, score);
  }
  return best;
}

void SchedulerModel::Assume(const std::string& uid, const std::string& node) {
  const std::scoped_lock lock(mutex_);
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  it->second.node = node;
  it->second.place = Place::kBinding;
  Account(it->second, 1);
}

void SchedulerModel::BindAsync(const kube::Pod& pod, const std::string& node) {
  auditor_.OnBindCall(pod.meta.uid);
  const std::scoped_lock lock(mutex_);
  binds_.remove_if([](const BindThread& bind) { return bind.done; });  // joins them
  BindThread& bind = binds_.emplace_back();
  bind.thread = std::jthread([this, pod, node, &bind] {
    if (std::string error = AskBind(pod, node); !error.empty()) {
      Failed(pod.meta.uid, {.node = {}, .message = std::move(error), .error = true});
    }
    const std::scoped_lock done(mutex_);
    bind.done = true;
  });
}

std::string SchedulerModel::AskBind(const kube::Pod& pod, const std::string& node) {
  const auto answer = Post(kBind, EncodeBindArgs({.pod_name = pod.meta.name,
                                                  .pod_namespace = pod.meta.ns,
                                                  .pod_uid = pod.meta.uid,
                                                  .node = node}));
  return answer ? DecodeBindResult(*answer) : "the bind call failed";
}

// --- After a refusal -----------------------------------------------------------------------------

void SchedulerModel::Failed(const std::string& uid, const Outcome& outcome) {
  if (stop_calls_.stop_requested()) return;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = pods_.find(uid);
    if (it == pods_.end() || it->second.place == Place::kBound) return;
    Entry& entry = it->second;
    const bool assumed = !entry.node.empty();
    Account(entry, -1);
    entry.node.clear();
    entry.place = entry.moved || outcome.error ? Place::kBackoff : Place::kAsleep;
    entry.after_error = outcome.error;
    entry.due = std::chrono::steady_clock::now() +
                backoff_ * (1 << std::min(entry.attempts, kMaxBackoffDoublings));
    if (assumed) MoveAll();  // forgetting it looks like a deletion
  }
  PatchCondition(uid, {.status = false,
                       .reason = outcome.error ? "SchedulerError" : "Unschedulable",
                       .message = outcome.message});
  changed_.notify_all();
}

/// Writes the condition and clears the nomination, if that changes anything.
void SchedulerModel::PatchCondition(const std::string& uid, const kube::PodScheduled& condition) {
  {
    const std::scoped_lock lock(mutex_);
    const auto it = pods_.find(uid);
    if (it == pods_.end()) return;
    const kube::Pod& pod = it->second.pod;
    if (pod.pod_scheduled == condition && pod.nominated_node.empty()) return;
  }
  cluster_.ChangePod(uid, [&](kube::Pod& pod) {
    if (!pod.node_name.empty()) return;
    pod.pod_scheduled = condition;
    pod.nominated_node.clear();
  });
}

// --- Reads ---------------------------------------------------------------------------------------

bool SchedulerModel::Idle() const {
  const std::scoped_lock lock(mutex_);
  if (trying_ || !active_.empty()) return false;
  return std::ranges::none_of(
      pods_, [](const auto& entry) { return entry.second.place == Place::kBackoff; });
}

std::array<VerbTimes, 3> SchedulerModel::Times() const {
  const std::scoped_lock lock(mutex_);
  return times_;
}

std::vector<std::string> SchedulerModel::Failures() const {
  const std::scoped_lock lock(mutex_);
  return failures_;
}

}  // namespace berth::server
