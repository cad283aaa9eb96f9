#include "sim/world/api_server.h"

#include "cluster/plan_claim.h"
#include "kube/selector.h"
#include "sim/random.h"

namespace berth::sim {
namespace {

/// How many changes of a kind are kept for watches to resume from, as in the API server's watch
/// cache at its maximum size.
constexpr std::size_t kRemembered = 100'000;

std::string NameKey(const std::string& ns, const std::string& name) { return ns + '/' + name; }

/// The pod has neither ended nor been deleted: only then does an eviction end it.
bool Runs(const kube::Pod& pod) {
  return !pod.meta.deletion && pod.phase != kube::PodPhase::kSucceeded &&
         pod.phase != kube::PodPhase::kFailed;
}

/// Whether the Job controls the pod, or a Job of the JobSet does.
bool IsOf(const kube::Pod& pod, const kube::JobRef& job) {
  if (job.kind == kube::JobKind::kJob) return pod.controller && pod.controller->uid == job.uid;
  const auto set = pod.meta.labels.find(std::string(kube::kJobSetLabel));
  return pod.meta.ns == job.ns && set != pod.meta.labels.end() && set->second == job.name;
}

void Apply(const kube::AnnotationPatch& patch, kube::StringMap& annotations) {
  for (const auto& [key, value] : patch) {
    if (value) {
      annotations[key] = *value;
    } else {
      annotations.erase(key);
    }
  }
}

std::string Describe(const kube::Pod& pod) {
  std::string text = pod.meta.name;
  if (!pod.node_name.empty()) text += " on " + pod.node_name;
  if (!pod.nominated_node.empty()) text += " nominated " + pod.nominated_node;
  if (!pod.scheduling_gates.empty()) text += " gated";
  if (pod.meta.deletion) text += " ending";
  if (pod.phase != kube::PodPhase::kPending) {
    text += fmt::format(" phase {}", static_cast<int>(pod.phase));
  }
  const auto claim = pod.meta.annotations.find(cluster::kPlanAnnotation);
  if (claim != pod.meta.annotations.end()) text += " [" + claim->second + "]";
  if (pod.pod_scheduled && !pod.pod_scheduled->status) {
    text += " " + pod.pod_scheduled->reason + ": " + pod.pod_scheduled->message;
  }
  return text;
}

}  // namespace

std::string_view Name(Kind kind) {
  static constexpr std::array<std::string_view, kKinds> kNames{"nodes", "pods", "policy",
                                                               "budgets"};
  return kNames[static_cast<std::size_t>(kind)];
}

// --- Pods ----------------------------------------------------------------------------------------

std::shared_ptr<const kube::Pod> ApiServer::Find(const engine::PodRef& ref, Reply& reply) const {
  const auto it = pods_.find(NameKey(ref.ns, ref.name));
  if (it == pods_.end()) {
    reply = {.status = 404, .message = "pod not found"};
    return nullptr;
  }
  if (!ref.uid.empty() && it->second->meta.uid != ref.uid) {
    reply = {.status = 409, .message = "the UID in the precondition does not match"};
    return nullptr;
  }
  return it->second;
}

/// For the server, a patch with another pod's UID tries to change an immutable field.
std::shared_ptr<const kube::Pod> ApiServer::FindToPatch(const engine::PodRef& ref,
                                                        Reply& reply) const {
  auto pod = Find(ref, reply);
  if (reply.status == 409) {
    reply = {.status = 422, .message = "metadata.uid: Invalid value: field is immutable"};
  }
  return pod;
}

Reply ApiServer::Store(kube::Pod pod) {
  pod.meta.resource_version = std::to_string(++version_);
  log_.Say([&pod] { return "api: " + Describe(pod); });
  auto stored = std::make_shared<const kube::Pod>(std::move(pod));
  pods_[NameKey(stored->meta.ns, stored->meta.name)] = stored;
  by_uid_[stored->meta.uid] = stored.get();
  Append(Kind::kPod, {.key = stored->meta.uid, .pod = stored});
  return {.pod = std::move(stored)};
}

void ApiServer::Erase(const kube::Pod& pod) {
  log_.Say("api: {} is gone", pod.meta.name);
  auto last = pods_.at(NameKey(pod.meta.ns, pod.meta.name));
  pods_.erase(NameKey(last->meta.ns, last->meta.name));
  by_uid_.erase(last->meta.uid);
  ++version_;
  Append(Kind::kPod, {.key = last->meta.uid, .deleted = true, .pod = last});
}

Reply ApiServer::CreatePod(kube::Pod pod) {
  if (pods_.contains(NameKey(pod.meta.ns, pod.meta.name))) {
    return {.status = 409, .message = "pod already exists"};
  }
  std::uint64_t state = ++pods_created_;  // UIDs are in no particular order
  pod.meta.uid = fmt::format("{:08x}-{}", SplitMix64(state) >> 32U, pod.meta.name);
  pod.meta.creation = timeline_.now() / 1000 * 1000;  // creationTimestamp has seconds
  return Store(std::move(pod));
}

Reply ApiServer::DeletePod(const engine::PodRef& ref) {
  Reply reply;
  const auto pod = Find(ref, reply);
  if (pod == nullptr) return reply;
  const bool ended =
      pod->phase == kube::PodPhase::kSucceeded || pod->phase == kube::PodPhase::kFailed;
  if (pod->node_name.empty() || ended) {
    Erase(*pod);
    return {};
  }
  if (pod->meta.deletion) return {.pod = pod};
  kube::Pod changed = *pod;
  changed.meta.deletion = timeline_.now() / 1000 * 1000;  // as creationTimestamp
  return Store(std::move(changed));
}

Reply ApiServer::RemovePod(const engine::PodRef& ref) {
  Reply reply;
  const auto pod = Find(ref, reply);
  if (pod != nullptr) Erase(*pod);
  return reply;
}

Reply ApiServer::EvictPod(const engine::PodRef& ref, bool dry_run) {
  Reply reply;
  const auto pod = Find(ref, reply);
  if (pod == nullptr) return reply;
  std::vector<std::shared_ptr<const kube::PodDisruptionBudget>> budgets;
  const bool counts = !pod->node_name.empty() && !pod->meta.deletion;
  for (const auto& [uid, budget] : budgets_) {
    const bool covers =
        budget->meta.ns == pod->meta.ns && kube::Matches(budget->selector, pod->meta.labels);
    if (counts && covers) budgets.push_back(budget);
  }
  if (budgets.size() > 1) {
    return {.status = 500,
            .message =
                "This pod has more than one PodDisruptionBudget, which the eviction "
                "subresource does not support."};
  }
  const bool forbidden = !budgets.empty() && budgets.front()->disruptions_allowed <= 0;
  if (forbidden) {
    return {.status = 429,
            .message = "Cannot evict pod as it would violate the pod's disruption budget."};
  }
  if (dry_run) return {.status = 201};
  if (on_evicted && Runs(*pod)) on_evicted(*pod);
  if (!budgets.empty()) {
    kube::PodDisruptionBudget less = *budgets.front();
    --less.disruptions_allowed;
    PutBudget(std::move(less));
  }
  reply = DeletePod(ref);
  return reply.ok() ? Reply{.status = 201} : reply;
}

Reply ApiServer::EvictByDelete(const engine::PodRef& ref, bool dry_run) {
  Reply reply;
  const auto pod = Find(ref, reply);
  if (pod == nullptr || dry_run) return reply;
  if (on_evicted && Runs(*pod)) on_evicted(*pod);
  return DeletePod(ref);
}

void ApiServer::PutJob(kube::JobKind kind, kube::Job job) {
  job.meta.resource_version = std::to_string(++version_);
  const std::string key = job.meta.ns + '/' + job.meta.name;
  jobs_.at(static_cast<std::size_t>(kind)).insert_or_assign(key, std::move(job));
}

void ApiServer::SetMissing(const std::string& ns, const kube::NeededObject& object, bool missing) {
  if (missing) {
    missing_.emplace(ns, object);
  } else {
    missing_.erase({ns, object});
  }
}

Reply ApiServer::FindNeeded(const std::string& ns, const kube::NeededObject& object) const {
  if (!missing_.contains({ns, object})) return {};
  return {.status = 404,
          .message = fmt::format("{} \"{}\" not found", kube::ResourceOf(object.kind).plural,
                                 object.name)};
}

const kube::NeededObject* ApiServer::MissingOf(const kube::Pod& pod) const {
  const auto missing = std::ranges::find_if(pod.needs, [&](const kube::NeededObject& object) {
    return missing_.contains({pod.meta.ns, object});
  });
  return missing == pod.needs.end() ? nullptr : &*missing;
}

Reply ApiServer::ReadJob(kube::JobKind kind, const std::string& ns, const std::string& name) const {
  const auto job = jobs(kind).find(ns + '/' + name);
  if (job == jobs(kind).end()) return {.status = 404, .message = "no such Job"};
  return {.jobs = {.jobs = {job->second}, .next = {}}};
}

namespace {

/// The first that `wanted` says, after `from`.
Reply OneOf(const std::map<std::string, kube::Job>& jobs, const std::string& from,
            const std::function<bool(const kube::Job&)>& wanted) {
  Reply reply;
  for (const auto& [key, job] : jobs) {
    if (!wanted(job) || key <= from) continue;
    if (!reply.jobs.jobs.empty()) {
      const kube::ObjectMeta& last = reply.jobs.jobs.back().meta;
      reply.jobs.next = last.ns + '/' + last.name;
      break;
    }
    reply.jobs.jobs.push_back(job);
  }
  return reply;
}

}  // namespace

Reply ApiServer::ListJobsOfSet(const std::string& ns, const std::string& set,
                               const std::string& from) const {
  return OneOf(jobs(kube::JobKind::kJob), from, [&](const kube::Job& job) {
    const auto label = job.meta.labels.find(std::string(kube::kJobSetLabel));
    return job.meta.ns == ns && label != job.meta.labels.end() && label->second == set;
  });
}

Reply ApiServer::ListJobs(kube::JobKind kind, const std::string& label,
                          const std::string& from) const {
  return OneOf(jobs(kind), from,
               [&](const kube::Job& job) { return job.meta.labels.contains(label); });
}

Reply ApiServer::SuspendJob(const kube::JobRef& ref, const std::string& label, bool suspend) {
  const auto at = jobs(ref.kind).find(ref.ns + '/' + ref.name);
  if (at == jobs(ref.kind).end()) return {.status = 404, .message = "no such Job"};
  const kube::ObjectMeta& meta = at->second.meta;
  if (meta.uid != ref.uid || meta.resource_version != ref.resource_version) {
    return {.status = 409, .message = "the object has been modified"};
  }
  kube::Job job = at->second;
  job.suspended = suspend;
  if (suspend) {
    job.meta.labels[label] = "true";
  } else {
    job.meta.labels.erase(label);
  }
  for (const auto& [key, pod] : std::map(pods_)) {
    const bool evicts = suspend && IsOf(*pod, ref) && !pod->node_name.empty() && Runs(*pod);
    if (evicts && on_evicted) on_evicted(*pod);
  }
  PutJob(ref.kind, job);
  if (on_job) on_job(at->second);
  return {.jobs = {.jobs = {at->second}, .next = {}}};
}

Reply ApiServer::Annotate(const engine::PodRef& ref, const kube::AnnotationPatch& annotations) {
  return Patch(ref, [&](kube::Pod& pod) {
    const kube::StringMap before = pod.meta.annotations;
    Apply(annotations, pod.meta.annotations);
    return pod.meta.annotations != before;
  });
}

Reply ApiServer::ReadPod(const engine::PodRef& ref) const {
  Reply reply;
  const auto pod = Find({.ns = ref.ns, .name = ref.name}, reply);
  if (pod != nullptr) reply.pod = pod;
  return reply;
}

Reply ApiServer::Bind(const engine::PodRef& ref, const std::string& node,
                      const std::map<std::string, std::string>& annotations) {
  Reply reply;
  const auto pod = Find(ref, reply);
  if (pod == nullptr) return reply;
  if (!pod->node_name.empty()) {
    return {.status = 409, .message = "pod is already assigned to node " + pod->node_name};
  }
  if (pod->meta.deletion) return {.status = 409, .message = "pod is being deleted"};
  if (!pod->scheduling_gates.empty()) return {.status = 409, .message = "pod has scheduling gates"};
  kube::Pod changed = *pod;
  changed.node_name = node;
  changed.nominated_node.clear();
  changed.pod_scheduled = kube::PodScheduled{
      .status = true, .reason = {}, .message = {}, .since = timeline_.now() / 1000 * 1000};
  for (const auto& [key, value] : annotations) changed.meta.annotations[key] = value;
  reply = Store(std::move(changed));
  if (on_bound) on_bound(*reply.pod);
  return reply;
}

Reply ApiServer::Nominate(const engine::PodRef& ref, const std::string& node,
                          const kube::AnnotationPatch& annotations) {
  Reply reply;
  const auto pod = FindToPatch(ref, reply);
  if (pod == nullptr) return reply;
  if (!pod->node_name.empty()) return {.status = 422, .message = "the pod is already bound"};
  kube::Pod changed = *pod;
  changed.nominated_node = node;
  Apply(annotations, changed.meta.annotations);
  const bool same = changed.nominated_node == pod->nominated_node &&
                    changed.meta.annotations == pod->meta.annotations;
  return same ? Reply{.pod = pod} : Store(std::move(changed));
}

Reply ApiServer::RemoveGate(const engine::PodRef& ref, const std::string& gate) {
  return Patch(ref, [&gate](kube::Pod& pod) { return std::erase(pod.scheduling_gates, gate) > 0; });
}

Reply ApiServer::Patch(const engine::PodRef& ref, const std::function<bool(kube::Pod&)>& change) {
  Reply reply;
  const auto pod = FindToPatch(ref, reply);
  if (pod == nullptr) return reply;
  kube::Pod changed = *pod;
  if (!change(changed)) return {.pod = pod};
  return Store(std::move(changed));
}

const kube::Pod* ApiServer::FindPod(const std::string& uid) const {
  const auto it = by_uid_.find(uid);
  return it == by_uid_.end() ? nullptr : it->second;
}

// --- Nodes, budgets and the policy ---------------------------------------------------------------

void ApiServer::PutNode(kube::Node node) {
  std::string amounts;
  for (const auto& [name, amount] : node.allocatable)
    amounts += fmt::format(" {}={}", name, amount);
  log_.Say("api: node {}{}{}{}", node.meta.name, node.unschedulable ? " cordoned" : "",
           node.taints.empty() ? "" : " tainted", amounts);
  node.meta.resource_version = std::to_string(++version_);
  auto stored = std::make_shared<const kube::Node>(std::move(node));
  nodes_[stored->meta.name] = stored;
  Append(Kind::kNode, {.key = stored->meta.name, .node = stored});
}

void ApiServer::DeleteNode(const std::string& name) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end()) return;
  log_.Say("api: node {} is gone", name);
  auto last = it->second;
  nodes_.erase(it);
  ++version_;
  Append(Kind::kNode, {.key = last->meta.name, .deleted = true, .node = last});
}

void ApiServer::PutPolicy(config::PolicyConfiguration policy) {
  log_.Say("api: policy");
  ++version_;
  policy_ = std::make_shared<const config::PolicyConfiguration>(std::move(policy));
  Append(Kind::kPolicy, {.key = "policy", .policy = policy_});
}

void ApiServer::PutBudget(kube::PodDisruptionBudget budget) {
  log_.Say("api: budget {} allows {}", budget.meta.name, budget.disruptions_allowed);
  budget.meta.resource_version = std::to_string(++version_);
  auto stored = std::make_shared<const kube::PodDisruptionBudget>(std::move(budget));
  budgets_[stored->meta.uid] = stored;
  Append(Kind::kBudget, {.key = stored->meta.uid, .budget = stored});
}

// --- Watches -------------------------------------------------------------------------------------

void ApiServer::Append(Kind kind, Change change) {
  const auto index = static_cast<std::size_t>(kind);
  Journal& journal = journals_[index];
  journal.changes.push_back(std::move(change));
  if (journal.changes.size() > kRemembered) {
    journal.changes.pop_front();
    ++journal.begin;
  }
  std::erase_if(watchers_[index], [](const Watcher& w) { return w.alive.expired(); });
  for (const Watcher& watcher : watchers_[index]) watcher.call();
}

std::vector<Change> ApiServer::List(Kind kind) const {
  std::vector<Change> objects;
  if (kind == Kind::kNode) {
    for (const auto& [name, node] : nodes_) objects.push_back({.key = name, .node = node});
  } else if (kind == Kind::kPod) {
    for (const auto& [name, pod] : pods_) objects.push_back({.key = pod->meta.uid, .pod = pod});
  } else if (kind == Kind::kBudget) {
    for (const auto& [uid, budget] : budgets_) objects.push_back({.key = uid, .budget = budget});
  } else if (policy_ != nullptr) {
    objects.push_back({.key = "policy", .policy = policy_});
  }
  return objects;
}

std::vector<Change> ApiServer::List(Kind kind, std::size_t position) const {
  if (position == end(kind)) return List(kind);
  std::map<std::string, Change> objects;
  for (std::size_t i = 0; i < position; ++i) {
    const Change& change = at(kind, i);
    if (change.deleted) {
      objects.erase(change.key);
    } else {
      objects[change.key] = change;
    }
  }
  std::vector<Change> list;
  for (auto& [key, object] : objects) list.push_back(std::move(object));
  return list;
}

void ApiServer::Subscribe(Kind kind, std::weak_ptr<const bool> alive,
                          std::function<void()> watcher) {
  watchers_[static_cast<std::size_t>(kind)].push_back({std::move(alive), std::move(watcher)});
}

}  // namespace berth::sim
