// Where the policy comes from, and what happens to a bad one: it is refused, and the last good one
// stays in force, also over a restart (it is kept in a ConfigMap of our own).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "config/policy_configuration.h"
#include "kube/read_file.h"
#include "kube/rest_client.h"
#include "server/logging.h"
#include "server/ops/metrics.h"

namespace berth::server {

/// Keeps the last accepted policy text in ConfigMap `berth-last-policy`, key `policy.yaml`, and
/// under `held.yaml` a later one that is held.
class LastGoodPolicy {
 public:
  /// The data of the ConfigMap.
  struct Texts {
    std::string policy;
    std::string held;  ///< Empty: none.
  };
  /// Without a client nothing is saved.
  LastGoodPolicy(kube::RestClient* client, std::string ns, Logger& logger)
      : client_(client), ns_(std::move(ns)), logger_(logger) {}

  /// nullopt: there is none, or it cannot be read.
  std::optional<Texts> Load() const;
  /// False: they could not be saved, and that was logged. Takes seconds at most.
  bool Save(const Texts& texts) const;

 private:
  kube::RestClient* client_;
  const std::string ns_;
  Logger& logger_;
};

/// Decides which version of the policy is in force. Thread-safe after First.
class PolicySource {
 public:
  using Apply = std::function<void(config::PolicyConfiguration)>;

  /// `may_write`: whether the last good policy may be saved now; only the leader may.
  PolicySource(Logger& logger, Metrics& metrics, LastGoodPolicy last_good,
               std::function<bool()> may_write)
      : logger_(logger),
        metrics_(metrics),
        last_good_(std::move(last_good)),
        may_write_(std::move(may_write)) {}

  /// `refused` is called with the diagnostics of each refused version. Set it first.
  void OnRefused(std::function<void(const std::string& errors)> refused) {
    refused_ = std::move(refused);
  }

  /// `hold` is asked about each new version that decodes: why it must not come into force until it
  /// is edited again; empty: it may. It is then treated as a refused one. Set it first.
  void OnUpdate(std::function<std::string(const config::PolicyConfiguration& next)> hold) {
    hold_ = std::move(hold);
  }

  /// The policy to start with: `yaml`, or the last good one if `yaml` is bad, or was held by an
  /// earlier process. An error means that neither can be used.
  std::expected<config::PolicyConfiguration, std::string> First(const std::string& yaml,
                                                                const std::string& name);
  /// The same if there is no policy: the last good one, or an error.
  std::expected<config::PolicyConfiguration, std::string> FirstOfNone(const std::string& name);
  /// A new version. Accepted if it decodes and is not held, otherwise logged and counted.
  void Update(const std::string& yaml, const std::string& name, const Apply& apply);

  /// The policy was deleted: the one in force stays, and this is logged and counted like a bad one.
  void Gone(const std::string& name);
  /// The same if it cannot be read.
  void Lost(const std::string& error);

  /// Saves the last accepted policy, if this process may and it is not saved yet. Call when this
  /// process may begin to write.
  void Keep();

  /// Checks the file once a second until stopped; reads it again when its content has changed. A
  /// file that cannot be read twice in a row is Lost.
  void WatchFile(const std::string& path, Apply apply);

  /// The diagnostics of the last refused version; empty: the last version was accepted.
  std::string last_error() const;

 private:
  std::expected<config::PolicyConfiguration, std::string> LastGoodInstead(
      const std::string& error, const std::optional<LastGoodPolicy::Texts>& kept);
  void Refuse(const std::string& yaml, const std::string& error, bool held);

  Logger& logger_;
  Metrics& metrics_;
  LastGoodPolicy last_good_;
  const std::function<bool()> may_write_;
  std::function<void(const std::string&)> refused_;
  std::function<std::string(const config::PolicyConfiguration&)> hold_;
  std::mutex keeping_;
  mutable std::mutex mutex_;  ///< Guards the next four.
  std::string current_;       ///< The text last seen, good or bad.
  std::string last_error_;
  std::string accepted_;                          ///< The text of the policy in force.
  std::optional<LastGoodPolicy::Texts> to_keep_;  ///< Not saved yet.
  std::jthread watcher_;
};

/// A policy file's content, at most 1 MiB.
std::expected<std::string, kube::FileError> ReadPolicyFile(const std::string& path);

}  // namespace berth::server
