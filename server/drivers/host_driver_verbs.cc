// Part of HostDriver: the verbs, on the threads of their callers.
#include <simdjson.h>

#include <chrono>

#include "host/timeouts.h"
#include "kube/decode.h"
#include "server/drivers/host_driver.h"

namespace berth::server {

std::expected<FilterResult, Unavailable> HostDriver::Filter(const ExtenderArgs& args) {
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
  std::optional<engine::FilterAnswer> answer;
  Run("filter", [&](engine::TimePoint now) { answer = host_.Filter(query, now); });
  if (!answer || !deciding()) return std::unexpected(Unavailable{});
  FilterResult result;
  if (answer->keep_all) {
    result.kept = args.node_names;
  } else {
    for (const std::size_t index : answer->kept) result.kept.push_back(args.node_names[index]);
    result.reason = cluster::RefusalText(answer->reason);
  }
  return result;
}

std::expected<std::vector<HostPriority>, Unavailable> HostDriver::Prioritize(
    const ExtenderArgs& args) {
  if (!deciding()) return std::unexpected(Unavailable{});
  const Lock lock(mutex_);
  const auto best = host_.PlannedNode(args.pod_uid);
  if (!best) return std::unexpected(Unavailable{});
  std::vector<HostPriority> priorities;
  priorities.reserve(args.node_names.size());
  for (const auto name : args.node_names) {
    priorities.push_back({.host = name, .score = name == *best ? 10 : 0});
  }
  return priorities;
}

/// Calls the host, and waits for the order that ends the call; a Binding is posted meanwhile.
template <typename Begin>
host::Order HostDriver::Call(std::string_view verb, Begin begin,
                             const std::function<bool()>& caller_gone) {
  const auto mailbox = std::make_shared<Mailbox>();
  host::Id call = 0;
  Run(verb, [&](engine::TimePoint now) {
    call = begin(now);
    mailboxes_.emplace(call, mailbox);
  });
  while (true) {
    host::Order order = Await(call, *mailbox, caller_gone);
    const auto* binding = std::get_if<host::PostBinding>(&order);
    if (binding == nullptr) return order;
    Post(*binding);
  }
}

/// The engine ends every parked call at its deadline, Resign and Stop end them all at once, and a
/// call whose caller has hung up is ended here.
host::Order HostDriver::Await(host::Id call, Mailbox& mailbox,
                              const std::function<bool()>& caller_gone) {
  Lock lock(mailbox.mutex);
  const auto arrived = [&] { return mailbox.order.has_value(); };
  while (!mailbox.arrived.wait_for(lock, host::kAskForCaller, arrived)) {
    if (!caller_gone || !caller_gone()) continue;
    lock.unlock();
    Run("a caller that has gone", [&](engine::TimePoint now) { host_.CallerGone(call, now); });
    lock.lock();
  }
  return *std::exchange(mailbox.order, std::nullopt);
}

void HostDriver::Post(const host::PostBinding& order) {
  host::Result result = api_.CarryOut(order, Wanted(order.id));
  const std::string pod = order.pod.ns + "/" + order.pod.name;
  if (result.outcome == kube::WriteOutcome::kDone) {
    logger_.V(2, "bound", {{"pod", pod}, {"node", order.node}});
  } else {
    logger_.Log(Severity::kWarning, "bind failed",
                {{"pod", pod}, {"node", order.node}, {"error", result.message}});
  }
  Finish(order.id, std::move(result));
}

std::expected<std::string, Unavailable> HostDriver::Bind(const BindArgs& args) {
  if (!deciding()) return std::unexpected(Unavailable{});
  const auto order = Call(
      "bind",
      [&](engine::TimePoint now) {
        return host_.Bind({.ns = std::string(args.pod_namespace),
                           .name = std::string(args.pod_name),
                           .uid = std::string(args.pod_uid)},
                          std::string(args.node), now);
      },
      args.client_gone);
  const auto& answer = std::get<host::AnswerBind>(order);
  if (!answer.error) return std::unexpected(Unavailable{});
  return *answer.error;
}

std::expected<std::map<std::string, Victims, std::less<>>, Unavailable> HostDriver::Preempt(
    const PreemptionArgs& args) {
  engine::VictimMap candidates;
  for (const auto& [node, victims] : args.node_to_victims) {
    candidates[node] = {.uids = victims.pod_uids, .pdb_violations = victims.num_pdb_violations};
  }
  if (!deciding()) return std::unexpected(Unavailable{});
  auto order = Call("preempt",
                    [&](engine::TimePoint now) {
                      return host_.Preempt(std::string(args.pod_uid), std::move(candidates), now);
                    },
                    {});
  auto& kept = std::get<host::AnswerPreempt>(order).kept;
  if (!kept || !deciding()) return std::unexpected(Unavailable{});
  std::map<std::string, Victims, std::less<>> answer;
  for (auto& [node, set] : *kept) {
    answer[node] = {.pod_uids = std::move(set.uids), .num_pdb_violations = set.pdb_violations};
  }
  return answer;
}

}  // namespace berth::server
