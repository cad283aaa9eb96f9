// The four verbs of an extender as kube-scheduler calls them. Two classes implement it: in virtual
// time (verb_wire.h), and over HTTP for `berth demo` (server/demo/http_extender.h).
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kube/objects.h"

namespace berth::sim {

/// An answer of filter.
struct FilterReply {
  std::vector<std::string> kept;  ///< Best first.
  std::string reason;             ///< For every node not kept.
};

/// A call returns at once. `done` is called later, once, and in the thread of the scheduler's
/// events; its error says why there is no answer that can be used.
class Extender {
 public:
  template <typename Result>
  using Done = std::function<void(const std::expected<Result, std::string>&)>;

  Extender() = default;
  Extender(const Extender&) = delete;
  Extender& operator=(const Extender&) = delete;
  virtual ~Extender() = default;

  virtual void Filter(const kube::Pod& pod, const std::vector<std::string>& offered,
                      Done<FilterReply> done) = 0;
  /// A call of filter for a placement that never happens.
  virtual void TryFilter(const kube::Pod& pod, const std::vector<std::string>& offered,
                         Done<FilterReply> done) = 0;
  virtual void Prioritize(const kube::Pod& pod, const std::vector<std::string>& offered,
                          Done<std::map<std::string, std::int64_t>> done) = 0;
  /// Empty text: bound.
  virtual void Bind(const engine::PodRef& pod, const std::string& node, Done<std::string> done) = 0;
  virtual void Preempt(const kube::Pod& pod, const engine::VictimMap& candidates,
                       Done<engine::VictimMap> done) = 0;
};

}  // namespace berth::sim
