// Host, part: the verbs. Each is answered only by who leads when the answer is ready.
#include <chrono>

#include "kube/decode.h"
#include "kube/requests.h"
#include "server/host.h"

namespace berth::server {
namespace {

using engine::ResolveBind;

/// Of what the API server says of a Binding that it does not take, so much is kept for `why`.
constexpr std::size_t kMaxBindError = 512;

engine::PodRef RefOf(const BindArgs& args) {
  return {std::string(args.pod_namespace), std::string(args.pod_name), std::string(args.pod_uid)};
}

}  // namespace

std::expected<FilterResult, Unavailable> Host::Filter(const ExtenderArgs& args) {
  std::optional<kube::Pod> request_pod;
  const engine::FilterQuery query{
      .uid = args.pod_uid, .offered = args.node_names, .request_pod = [&]() -> const kube::Pod* {
        if (!request_pod) {
          simdjson::dom::parser parser;
          auto decoded = kube::DecodePod(args.pod_json, parser);
          if (!decoded) return nullptr;
          request_pod = std::move(*decoded);
        }
        return &*request_pod;
      }};
  if (!deciding()) return std::unexpected(Unavailable{});
  engine::FilterAnswer answer;
  Wanted wanted;
  {
    const std::scoped_lock lock(mutex_);
    if (!deciding()) return std::unexpected(Unavailable{});
    const auto now = clock_();
    Enter("filter", [&] {
      answer = engine_->Filter(query, now);
      wanted = Collect(now);
    });
    ++changes_;
  }
  changed_.notify_all();
  Carry(std::move(wanted));
  if (!deciding()) return std::unexpected(Unavailable{});
  FilterResult result;
  if (answer.keep_all) {
    result.kept = args.node_names;
  } else {
    for (const std::size_t index : answer.kept) result.kept.push_back(args.node_names[index]);
    result.reason = cluster::RefusalText(answer.reason);
  }
  return result;
}

std::expected<std::vector<HostPriority>, Unavailable> Host::Prioritize(const ExtenderArgs& args) {
  if (!deciding()) return std::unexpected(Unavailable{});
  const std::scoped_lock lock(mutex_);
  if (!deciding()) return std::unexpected(Unavailable{});
  const auto planned = engine_->PlannedNode(args.pod_uid);
  const std::string_view best =
      planned == cluster::kNoNode ? std::string_view() : engine_->store().node(planned).name;
  std::vector<HostPriority> priorities;
  priorities.reserve(args.node_names.size());
  for (const auto name : args.node_names) {
    priorities.push_back({.host = name, .score = name == best ? 10 : 0});
  }
  return priorities;
}

/// kube-scheduler may hear of a pod before we do. A refusal for that alone could stand until some
/// unrelated event: better to wait for the watch, which is milliseconds behind.
void Host::AwaitPod(std::unique_lock<std::mutex>& lock, std::string_view uid) {
  changed_.wait_for(lock, std::chrono::seconds(1),
                    [&] { return !deciding() || engine_->store().FindPod(uid) != nullptr; });
}

std::expected<std::string, Unavailable> Host::Bind(const BindArgs& args) {
  if (!deciding()) return std::unexpected(Unavailable{});
  const engine::PodRef pod = RefOf(args);
  const std::string node(args.node);
  engine::BindAnswer answer;
  Wanted wanted;
  auto waiter = std::make_shared<Waiter>();
  {
    std::unique_lock lock(mutex_);
    AwaitPod(lock, args.pod_uid);
    if (!deciding()) return std::unexpected(Unavailable{});
    const auto now = clock_();
    Enter("bind", [&] {
      answer = engine_->Bind({.uid = pod.uid, .ns = pod.ns, .name = pod.name, .node = node}, now);
      wanted = Collect(now);
    });
    if (answer.stand) waiters_.emplace(answer.ticket, waiter);
    ++changes_;
  }
  changed_.notify_all();
  const Term term = wanted.term;
  Carry(std::move(wanted));
  if (!answer.stand) return FinishBind(term, pod, node, answer.now);
  const StandingBind standing(metrics_);
  const auto word = Await(*waiter, term, answer.ticket, args);
  if (!word) return std::unexpected(word.error());
  return FinishBind(term, pod, node, *word);
}

/// Parks the call. The engine ends every stand at its deadline, Resign and Stop end them all at
/// once, and one whose caller has hung up ends by itself.
std::expected<ResolveBind, Unavailable> Host::Await(Waiter& waiter, Term term,
                                                    engine::TicketId ticket, const BindArgs& args) {
  std::unique_lock lock(waiter.mutex);
  const auto resolved = [&] { return waiter.resolution.has_value(); };
  while (!waiter.resolved.wait_for(lock, std::chrono::seconds(1), resolved)) {
    if (!args.client_gone || !args.client_gone()) continue;
    lock.unlock();
    bool stood = false;
    ApplyIn(term, [&](engine::Engine& e, engine::TimePoint) {
      stood = e.BindAbandoned(ticket);
      if (stood) waiters_.erase(ticket);
    });
    lock.lock();
    // Told to post meanwhile, perhaps by a thread that has not come here yet: the room is charged
    // for it, so wait for the word and do it.
    if (!stood) continue;
    if (resolved()) break;
    return ResolveBind{.ticket = ticket,
                       .verdict = ResolveBind::Verdict::kError,
                       .error = "berth: the caller has gone",
                       .annotations = {}};
  }
  return waiter.resolution.value_or(std::unexpected(Unavailable{}));
}

std::expected<std::string, Unavailable> Host::FinishBind(Term term, const engine::PodRef& pod,
                                                         const std::string& node,
                                                         const ResolveBind& word) {
  switch (word.verdict) {
    case ResolveBind::Verdict::kPost:
      return Post(term, pod, node, word);
    case ResolveBind::Verdict::kBound:
      return std::string();
    case ResolveBind::Verdict::kError:
      break;
  }
  return word.error.empty() ? "berth: refused" : word.error;
}

std::expected<std::string, Unavailable> Host::Post(Term term, const engine::PodRef& pod,
                                                   const std::string& node,
                                                   const ResolveBind& word) {
  if (term != term_) return std::unexpected(Unavailable{});  // not the next term's to post
  const Api::BindResult result = api_.Bind(pod, node, word.annotations);
  ApplyIn(term, [&](engine::Engine& e, engine::TimePoint now) {
    e.BindFinished(pod.uid, result.outcome, now, kube::TruncateUtf8(result.message, kMaxBindError));
  });
  if (result.outcome == engine::BindOutcome::kBound) {
    logger_.V(2, "bound", {{"pod", pod.ns + "/" + pod.name}, {"node", node}});
    return std::string();
  }
  logger_.Log(Severity::kWarning, "bind failed",
              {{"pod", pod.ns + "/" + pod.name}, {"node", node}, {"error", result.message}});
  if (!leads_()) return std::unexpected(Unavailable{});
  return "berth: " + result.message;
}

std::expected<std::map<std::string, Victims, std::less<>>, Unavailable> Host::Preempt(
    const PreemptionArgs& args) {
  engine::VictimMap candidates;
  for (const auto& [node, victims] : args.node_to_victims) {
    candidates[node] = {.uids = victims.pod_uids, .pdb_violations = victims.num_pdb_violations};
  }
  if (!deciding()) return std::unexpected(Unavailable{});
  engine::VictimMap kept;
  Wanted wanted;
  {
    std::unique_lock lock(mutex_);
    AwaitPod(lock, args.pod_uid);
    if (!deciding()) return std::unexpected(Unavailable{});
    const auto now = clock_();
    Enter("preempt", [&] {
      kept = engine_->Preempt(args.pod_uid, candidates, now);
      wanted = Collect(now);
    });
    ++changes_;  // room that is held has an end to wake up for
  }
  changed_.notify_all();
  Carry(std::move(wanted));
  if (!deciding()) return std::unexpected(Unavailable{});
  std::map<std::string, Victims, std::less<>> answer;
  for (auto& [node, set] : kept) {
    answer[node] = {.pod_uids = std::move(set.uids), .num_pdb_violations = set.pdb_violations};
  }
  return answer;
}

}  // namespace berth::server
