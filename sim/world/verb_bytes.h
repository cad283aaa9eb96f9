// The verbs at fidelity `wire`. Both ends of a call work on bytes: kube-scheduler's
// (server/verbs/extender_client.h) and Berth's, as server/verbs/verb_server.cc does
// (server/verbs/wire.h).
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/verbs/wire.h"
#include "sim/world/host_driver.h"

namespace berth::sim {

/// Requests are made and answers read as by kube-scheduler; Serve* is Berth's side. An answer that
/// is not understood, or that does not partition the offered nodes (I5), is reported to the
/// environment.
class VerbBytes {
 public:
  using Nodes = std::vector<std::string>;
  using Scores = std::map<std::string, std::int64_t>;
  /// nullopt: 503.
  using Answer = std::function<void(const std::optional<std::string>&)>;

  /// `env` must outlive it.
  explicit VerbBytes(Environment& env) : env_(env) {}

  /// ExtenderArgs, of filter and prioritize.
  static std::string Offer(const kube::Pod& pod, const Nodes& offered);
  static std::string BindRequest(const engine::PodRef& pod, const std::string& node);
  static std::string PreemptRequest(const kube::Pod& pod, const engine::VictimMap& candidates);

  void ServeFilter(HostDriver& host, const std::string& body, const Answer& answer);
  void ServePrioritize(HostDriver& host, const std::string& body, const Answer& answer);
  void ServeBind(HostDriver& host, const std::string& body, std::weak_ptr<const bool> client,
                 const Answer& answer);
  void ServePreempt(HostDriver& host, const std::string& body, const Answer& answer);

  std::expected<FilterReply, std::string> ReadFilter(const std::string& body, const Nodes& offered);
  std::expected<Scores, std::string> ReadPriorities(const std::string& body);
  std::expected<engine::VictimMap, std::string> ReadVictims(const std::string& body);

 private:
  server::PaddedBody Padded(const std::string& body);
  template <typename Args>
  bool Understood(const std::expected<Args, std::string>& args, const Answer& answer);
  void CheckPartition(const FilterReply& reply, const std::map<std::string, std::string>& refused,
                      const Nodes& offered);

  Environment& env_;
  server::Decoder decoder_;
  std::string padded_;  ///< The body that is being decoded.
};

}  // namespace berth::sim
