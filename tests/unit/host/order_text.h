// Orders as one line each, for tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "host/orders.h"

namespace berth::host {

inline std::string TextOf(const Order& order) {
  return std::visit(
      [](const auto& o) -> std::string {
        using O = std::decay_t<decltype(o)>;
        if constexpr (std::is_same_v<O, Nominate>) {
          return fmt::format("nominate {} {}", o.pod.name, o.node);
        } else if constexpr (std::is_same_v<O, RemoveGate>) {
          return fmt::format("ungate {}", o.pod.name);
        } else if constexpr (std::is_same_v<O, MarkVictim>) {
          return fmt::format("mark {} {}{}", o.pod.name, o.mark,
                             o.sets_condition ? " with a condition" : "");
        } else if constexpr (std::is_same_v<O, Evict>) {
          const char* verb = o.by_delete ? "delete" : "evict";
          return fmt::format("{} {}", o.dry_run ? "try" : verb, o.pod.name);
        } else if constexpr (std::is_same_v<O, FindObject>) {
          return fmt::format("find {}", engine::KeyOf(o.object));
        } else if constexpr (std::is_same_v<O, ReadJobs>) {
          const char* kind = o.kind == kube::JobKind::kJobSet ? "jobset" : "job";
          if (!o.name.empty()) return fmt::format("read {} {}", kind, o.name);
          if (!o.of_set.empty()) {
            return fmt::format("list jobs of {}{}", o.of_set,
                               o.from.empty() ? "" : " from " + o.from);
          }
          return fmt::format("list {}s{}", kind, o.from.empty() ? "" : " from " + o.from);
        } else if constexpr (std::is_same_v<O, SuspendJob>) {
          return fmt::format("{} {}{} at {}", o.suspend ? "suspend" : "resume",
                             o.job.kind == kube::JobKind::kJobSet ? "jobset " : "", o.job.name,
                             o.job.resource_version);
        } else if constexpr (std::is_same_v<O, ReadPod>) {
          return fmt::format("read {}", o.pod.name);
        } else if constexpr (std::is_same_v<O, PostBinding>) {
          return fmt::format("post {} {}", o.pod.name, o.node);
        } else if constexpr (std::is_same_v<O, AnswerBind>) {
          if (!o.error) return "answer 503";
          return o.error->empty() ? "answer bound" : "answer " + *o.error;
        } else if constexpr (std::is_same_v<O, AnswerPreempt>) {
          return o.kept ? fmt::format("keep {} nodes", o.kept->size()) : "keep 503";
        } else {
          return {};  // what else has no outcome
        }
      },
      order);
}

using Texts = std::vector<std::string>;

/// Without events, notices and decisions, and without engines that are given up.
inline Texts TextsOf(const std::vector<Order>& orders) {
  Texts texts;
  for (const Order& order : orders) {
    if (std::string text = TextOf(order); !text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

/// The id of a write or read; 0: it is neither.
inline Id IdOf(const Order& order) {
  return std::visit(
      [](const auto& o) -> Id {
        if constexpr (requires { o.id; }) return o.id;
        return 0;
      },
      order);
}

}  // namespace berth::host
