#include "tests/support/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "cluster/plan_claim.h"

namespace berth::testing {

using engine::ResolveBind;

namespace {

std::string Describe(const engine::Action& action) {
  struct Visitor {
    std::string operator()(const engine::ReleaseMember& a) const {
      if (a.withdraw) return fmt::format("withdraw {}", a.pod.name);
      return fmt::format("release {} node={} note={} gate={}", a.pod.name, a.node, a.annotation,
                         a.remove_gate);
    }
    std::string operator()(const engine::EvictPod& a) const {
      const std::string job =
          a.job ? fmt::format(" or suspend {} with {}", a.job->Key(), a.job->pods) : "";
      return fmt::format("{} {} for {}{}", a.dry_run ? "try" : "evict", a.pod.name, a.workload,
                         job);
    }
    std::string operator()(const engine::FindNeeded& a) const {
      return fmt::format("find {} for {}", engine::KeyOf(a.object), a.workload);
    }
    std::string operator()(const engine::WarnVictim& a) const {
      return fmt::format("warn {} {}", a.pod.name, a.time.empty() ? "no more" : a.time);
    }
    std::string operator()(const ResolveBind& a) const {
      std::string text =
          fmt::format("resolve {} {} {}", a.ticket, static_cast<int>(a.resolution), a.error);
      for (const auto& [key, value] : a.annotations) text += ' ' + key + '=' + value;
      return text;
    }
    std::string operator()(const engine::SettleBind& a) const { return "settle " + a.pod.name; }
    std::string operator()(const engine::EmitEvent& a) const {
      return fmt::format("event {} {} {}", a.pod.name, a.reason, a.note);
    }
    std::string operator()(const engine::NodeNotice& a) const {
      return fmt::format("node {} kept={} {}", a.node, a.kept, a.problem);
    }
    std::string operator()(const engine::Decision& a) const {
      std::string text = fmt::format("decision {} {} queue={} plan={} verdict={}:{}/{}:{}", a.kind,
                                     a.workload, a.queue, a.plan, cluster::Token(a.verdict.reason),
                                     a.verdict.have, a.verdict.want, a.verdict.subject);
      for (const auto& [pod, node] : a.placed) text += fmt::format(" {}->{}", pod, node);
      return text;
    }
  };
  return std::visit(Visitor{}, action);
}

}  // namespace

World::World(config::PolicyConfiguration policy, engine::Options options)
    : policy_(std::move(policy)),
      options_(std::move(options)),
      engine_(std::make_unique<engine::Engine>(policy_, options_)) {}

// --- The API server ------------------------------------------------------------------------------

void World::Queue(std::function<void()> deliver) {
  if (delay_ == 0 && events_.empty()) {
    deliver();
  } else {
    events_.push_back({now_ + delay_, std::move(deliver)});
  }
}

void World::DeliverDue() {
  while (!events_.empty() && events_.front().due <= now_) {
    const auto deliver = std::move(events_.front().deliver);
    events_.pop_front();
    deliver();
  }
}

void World::Publish(const kube::Pod& pod) {
  kube::Pod copy = pod;
  // As the decoder does: every event has a spec of its own.
  copy.spec = std::make_shared<const kube::PodSpec>(*pod.spec);
  Queue([this, copy = std::move(copy)] { engine_->OnPod(copy, now_); });
}

void World::Add(const kube::Node& node) {
  nodes_[node.meta.name] = node;
  Queue([this, node] { engine_->OnNode(node, now_); });
}

void World::Add(const kube::Pod& pod) {
  pods_[pod.meta.name] = pod;
  Publish(pod);
}

void World::Remove(const std::string& node) {
  nodes_.erase(node);
  Queue([this, node] { engine_->OnNodeDeleted(node, now_); });
}

void World::Delete(const std::string& name) {
  const std::string uid = pods_.at(name).meta.uid;
  pods_.erase(name);
  Queue([this, uid] { engine_->OnPodDeleted(uid, now_); });
}

void World::Terminate(const std::string& name) {
  Change(name, [this](kube::Pod& pod) { pod.meta.deletion = now_; });
}

void World::Change(const std::string& name, const std::function<void(kube::Pod&)>& change) {
  kube::Pod& pod = pods_.at(name);
  change(pod);
  Publish(pod);
}

kube::Pod* World::ByUid(std::string_view uid) {
  const auto it = std::ranges::find_if(
      pods_, [uid](const auto& entry) { return entry.second.meta.uid == uid; });
  return it == pods_.end() ? nullptr : &it->second;
}

int World::BoundPods() const {
  return static_cast<int>(
      std::ranges::count_if(pods_, [](const auto& p) { return !p.second.node_name.empty(); }));
}

std::vector<std::string> World::NodeNames() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) names.push_back(name);
  return names;
}

void World::Post(const std::string& uid, const std::string& node,
                 const std::map<std::string, std::string>& annotations) {
  if (posting_ == Posting::kHangs) return;
  kube::Pod* pod = ByUid(uid);
  const bool applies = (posting_ == Posting::kBinds || posting_ == Posting::kLosesAnswer) &&
                       pod != nullptr && pod->node_name.empty() && !pod->meta.deletion;
  if (applies) {
    pod->node_name = node;
    pod->nominated_node.clear();
    pod->pod_scheduled = kube::PodScheduled{
        .status = true, .reason = {}, .message = {}, .since = now_ / 1000 * 1000};
    for (const auto& [key, value] : annotations) pod->meta.annotations[key] = value;
  }
  const bool lost = posting_ == Posting::kLosesAnswer || posting_ == Posting::kLosesRequest;
  engine_->BindFinished(uid,
                        lost      ? engine::BindOutcome::kUnknown
                        : applies ? engine::BindOutcome::kBound
                                  : engine::BindOutcome::kRefused,
                        now_, applies || lost ? "" : "a webhook denied the request");
  if (applies) Publish(*pod);
}

// --- The host ------------------------------------------------------------------------------------

void World::CarryOut(const engine::Action& action) {
  log_.push_back(Describe(action));
  if (const auto* decision = std::get_if<engine::Decision>(&action)) {
    decisions_.emplace_back(now_, *decision);
  }
  if (const auto* release = std::get_if<engine::ReleaseMember>(&action)) {
    kube::Pod* pod = ByUid(release->pod.uid);
    if (pod == nullptr || !pod->node_name.empty() || refused_.contains(pod->meta.name)) return;
    if (release->withdraw) pod->nominated_node.clear();
    if (!release->node.empty()) pod->nominated_node = release->node;
    if (!release->annotation.empty()) {
      pod->meta.annotations[std::string(cluster::kPlanAnnotation)] = release->annotation;
    }
    if (release->remove_gate) std::erase(pod->scheduling_gates, cluster::kAdmissionGate);
    Publish(*pod);
  } else if (const auto* resolve = std::get_if<ResolveBind>(&action)) {
    resolved_[resolve->ticket] = *resolve;
    const auto it = parked_.find(resolve->ticket);
    if (it == parked_.end()) return;
    const auto [uid, node] = it->second;
    parked_.erase(it);
    if (resolve->resolution == ResolveBind::Resolution::kPost)
      Post(uid, node, resolve->annotations);
  } else if (const auto* eviction = std::get_if<engine::EvictPod>(&action)) {
    if (holds_evictions_) {
      held_evictions_.push_back(*eviction);
    } else {
      Evict(*eviction);
    }
  } else if (const auto* question = std::get_if<engine::FindNeeded>(&action)) {
    if (holds_evictions_) {
      held_questions_.push_back(*question);
    } else {
      Find(*question);
    }
  } else if (const auto* warning = std::get_if<engine::WarnVictim>(&action)) {
    if (kube::Pod* pod = ByUid(warning->pod.uid)) {
      auto& notes = pod->meta.annotations;
      const std::string key(cluster::kEvictionTimeAnnotation);
      notes.erase(key);
      if (!warning->time.empty()) notes.emplace(key, warning->time);
      Publish(*pod);
    }
  } else if (const auto* settle = std::get_if<engine::SettleBind>(&action)) {
    if (const kube::Pod* pod = ByUid(settle->pod.uid)) {
      engine_->OnPod(*pod, now_);
    } else {
      engine_->OnPodDeleted(settle->pod.uid, now_);
    }
    engine_->BindSettled(settle->pod.uid, now_);
  }
}

void World::CarryOutEvictions() {
  for (const engine::EvictPod& eviction : std::exchange(held_evictions_, {})) Evict(eviction);
  for (const engine::FindNeeded& question : std::exchange(held_questions_, {})) Find(question);
  Tick();
}

void World::EndVictims() {
  std::vector<std::string> ended;
  for (const auto& [name, pod] : pods_) {
    if (pod.meta.deletion) ended.push_back(name);
  }
  for (const std::string& name : ended) Delete(name);
  Tick();
}

/// As the host and the API server do it: a victim gets its mark, then its deletion timestamp.
void World::Evict(const engine::EvictPod& eviction) {
  if (!engine_->StillEvicts(eviction.workload, eviction.id)) return;
  kube::Pod* pod = ByUid(eviction.pod.uid);
  const bool accepted = pod == nullptr || !protected_.contains(pod->meta.name);
  if (pod != nullptr && accepted && !eviction.dry_run) {
    pod->meta.annotations[std::string(cluster::kEvictedForAnnotation)] =
        cluster::EncodeEvictionMark(MarkOf(eviction));
    pod->meta.deletion = now_;
    Publish(*pod);
  }
  engine_->EvictionAnswered(eviction.workload, eviction.id, eviction.pod.uid, eviction.dry_run,
                            accepted, now_);
}

void World::Find(const engine::FindNeeded& question) {
  if (!engine_->StillEvicts(question.workload, question.id)) return;
  const std::string key = engine::KeyOf(question.object);
  engine_->EvictionAnswered(question.workload, question.id, key, /*dry_run=*/true,
                            !missing_.contains(key), now_);
}

void World::Tick() {
  for (int round = 0; round < 1000; ++round) {
    DeliverDue();
    engine_->Step(now_);
    const auto actions = engine_->TakeActions();
    if (actions.empty() && !engine_->unfinished()) return;
    for (const engine::Action& action : actions) CarryOut(action);
  }
  throw std::runtime_error("the engine does not come to rest");
}

void World::Start() {
  engine_->Start(now_);
  Tick();
}

void World::Advance(engine::TimePoint ms) {
  const engine::TimePoint end = now_ + ms;
  for (int round = 0; round < 100'000; ++round) {
    Tick();
    engine::TimePoint next = end;
    if (const auto due = engine_->NextDeadline()) next = std::min(next, std::max(*due, now_));
    if (!events_.empty()) next = std::min(next, std::max(events_.front().due, now_));
    if (next == now_ && now_ != end) next = now_ + 1;
    now_ = next;
    if (now_ >= end) break;
  }
  Tick();
}

void World::Restart() {
  engine_ = std::make_unique<engine::Engine>(policy_, options_);
  events_.clear();
  parked_.clear();
  for (const auto& [name, node] : nodes_) engine_->OnNode(node, now_);
  for (const auto& [name, pod] : pods_) Publish(pod);
  const auto delay = std::exchange(delay_, 0);
  for (const Event& event : std::exchange(events_, {})) event.deliver();
  delay_ = delay;
  Start();
}

void World::Reload(config::PolicyConfiguration policy) {
  policy_ = policy;
  engine_->OnPolicy(std::move(policy), now_);
  Tick();
}

std::vector<std::string> World::LogOf(std::string_view prefix) const {
  std::vector<std::string> lines;
  std::ranges::copy_if(log_, std::back_inserter(lines),
                       [prefix](const std::string& line) { return line.starts_with(prefix); });
  return lines;
}

// --- kube-scheduler ------------------------------------------------------------------------------

FilterResult World::Filter(const std::string& name) { return Filter(name, NodeNames()); }

FilterResult World::Filter(const std::string& name, const std::vector<std::string>& offered) {
  const std::vector<std::string_view> views(offered.begin(), offered.end());
  const kube::Pod* pod = pods_.contains(name) ? &pods_.at(name) : nullptr;
  const auto answer =
      engine_->Filter({.uid = pod == nullptr ? std::string_view(name) : pod->meta.uid,
                       .offered = views,
                       .request_pod = [pod] { return pod; }},
                      now_);
  FilterResult result;
  result.keep_all = answer.keep_all;
  result.reason = std::string(cluster::Token(answer.reason));
  for (const std::size_t index : answer.kept) result.kept.push_back(offered.at(index));
  Tick();
  return result;
}

BindResult World::Bind(const std::string& name, const std::string& node) {
  const kube::Pod& pod = pods_.at(name);
  const std::string uid = pod.meta.uid;
  const auto answer =
      engine_->Bind({.uid = uid, .ns = pod.meta.ns, .name = pod.meta.name, .node = node}, now_);
  BindResult result;
  result.parked = answer.parked;
  result.ticket = answer.ticket;
  if (answer.parked) {
    parked_[answer.ticket] = {uid, node};
  } else {
    result.posted = answer.now.resolution == ResolveBind::Resolution::kPost;
    result.bound = answer.now.resolution == ResolveBind::Resolution::kBound;
    result.error = answer.now.error;
    if (result.posted) Post(uid, node, answer.now.annotations);
  }
  Tick();
  return result;
}

void World::Refuse(const std::string& name, const std::string& message) {
  Change(name, [&](kube::Pod& pod) {
    pod.nominated_node.clear();
    pod.pod_scheduled = {.status = false, .reason = "Unschedulable", .message = message};
  });
  Tick();
}

bool World::Attempt(const std::string& name) {
  const kube::Pod& pod = pods_.at(name);
  std::string node;
  if (!pod.nominated_node.empty() && nodes_.contains(pod.nominated_node)) {
    const FilterResult probe = Filter(name, {pod.nominated_node});
    node = probe.keep_all ? pod.nominated_node : probe.node();
  }
  if (node.empty()) {
    const FilterResult full = Filter(name);
    node = full.keep_all && !nodes_.empty() ? nodes_.begin()->first : full.node();
  }
  if (node.empty()) return false;
  const BindResult bound = Bind(name, node);
  return bound.parked || bound.posted || bound.bound;
}

bool World::IsParked(const std::string& name) const {
  const std::string& uid = pods_.at(name).meta.uid;
  return std::ranges::any_of(parked_,
                             [&uid](const auto& entry) { return entry.second.first == uid; });
}

/// kube-scheduler places a pod that Berth does not manage: on its nominated node, otherwise on any.
void World::PlaceUnmanaged(const std::string& name) {
  const kube::Pod& pod = pods_.at(name);
  std::string to = pod.nominated_node;
  for (const auto& [node, object] : nodes_) {
    if (to.empty() && !object.unschedulable) to = node;
  }
  if (to.empty()) return;
  strayed_ |= Planned(name) != to;
  Change(name, [&to](kube::Pod& changed) {
    changed.node_name = to;
    changed.nominated_node.clear();
  });
  Tick();
}

void World::Schedule() {
  const int rounds = posting_ == Posting::kBinds ? 1000 : 3;  // other worlds never become quiet
  for (int round = 0; round < rounds; ++round) {
    const std::size_t before = log_.size();
    const int bound = BoundPods();
    std::vector<std::string> names;
    for (const auto& [name, pod] : pods_) {
      if (pod.node_name.empty() && pod.scheduling_gates.empty() && !pod.meta.deletion &&
          !IsParked(name)) {
        names.push_back(name);
      }
    }
    for (const std::string& name : names) {
      const auto it = pods_.find(name);
      if (it == pods_.end() || !it->second.node_name.empty()) continue;
      if (it->second.spec->requests.contains(kGpu)) {
        Attempt(name);
      } else {
        PlaceUnmanaged(name);
      }
    }
    Tick();
    if (log_.size() == before && BoundPods() == bound) return;
  }
  if (rounds == 1000) throw std::runtime_error("scheduling does not come to rest");
}

// --- Reads ---------------------------------------------------------------------------------------

std::int64_t World::UsedGpus(const std::string& node) const {
  const auto index = store().FindNode(node);
  if (index == cluster::kNoNode) return 0;
  return store().node(index).used[store().device_ids().front()] / 1000;
}

std::int64_t World::UsedGpus() const {
  std::int64_t used = 0;
  for (const auto& node : store().nodes()) {
    used += node->used[store().device_ids().front()] / 1000;
  }
  return used;
}

std::string World::Planned(const std::string& name) const {
  const auto node = engine_->PlannedNode(pods_.at(name).meta.uid);
  return node == cluster::kNoNode ? std::string() : store().node(node).name;
}

cluster::Verdict World::VerdictOf(const std::string& name) {
  return engine_->Why(pods_.at(name).meta.ns, name, now_).verdict;
}

std::string World::Why(const std::string& name) {
  return std::string(cluster::Token(VerdictOf(name).reason));
}

}  // namespace berth::testing
