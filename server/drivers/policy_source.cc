#include "server/drivers/policy_source.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>

#include "config/decode.h"
#include "server/drivers/config_map.h"

namespace berth::server {
namespace {

constexpr kube::Duration kLoadTimeout{30'000};
constexpr kube::Duration kSaveTimeout{5'000};

constexpr const char* kConfigMap = "berth-last-policy";
constexpr const char* kPolicyKey = "policy.yaml";
constexpr const char* kHeldKey = "held.yaml";
constexpr std::size_t kMaxPolicyBytes = std::size_t{1} << 20U;
/// In a row, a second apart: who edits a file may remove it for a moment.
constexpr int kMissedReads = 2;

std::string Join(const std::vector<config::Diagnostic>& diagnostics) {
  std::string text;
  for (const auto& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += diagnostic.ToString();
  }
  return text;
}

/// A pipe would have to be waited for.
std::expected<std::string, kube::FileError> ReadWatchedFile(const std::string& path) {
  std::error_code code;
  const auto type = std::filesystem::status(path, code).type();
  if (type != std::filesystem::file_type::regular &&
      type != std::filesystem::file_type::not_found) {
    return std::unexpected(kube::FileError{true, path + ": is not a regular file"});
  }
  return ReadPolicyFile(path);
}

}  // namespace

std::expected<std::string, kube::FileError> ReadPolicyFile(const std::string& path) {
  return kube::ReadFile(path, kMaxPolicyBytes);
}

std::optional<LastGoodPolicy::Texts> LastGoodPolicy::Load() const {
  if (client_ == nullptr) return std::nullopt;
  const auto kept = ReadConfigMap(*client_, ns_, kConfigMap, kLoadTimeout, {});
  if (!kept || !*kept) return std::nullopt;
  const auto text = [&](const char* key) {
    const auto yaml = (*kept)->find(key);
    return yaml == (*kept)->end() ? std::string() : yaml->second;
  };
  Texts texts{.policy = text(kPolicyKey), .held = text(kHeldKey)};
  if (texts.policy.empty()) return std::nullopt;
  return texts;
}

bool LastGoodPolicy::Save(const Texts& texts) const {
  if (client_ == nullptr) return true;
  ConfigMapTexts data{{kPolicyKey, texts.policy}};
  if (!texts.held.empty()) data.emplace(kHeldKey, texts.held);
  const auto saved = WriteConfigMap(*client_, ns_, kConfigMap, data, kSaveTimeout, {});
  if (saved) return true;
  logger_.Log(Severity::kWarning, "the last good policy could not be saved",
              {{"namespace", ns_}, {"error", saved.error()}});
  return false;
}

std::expected<config::PolicyConfiguration, std::string> PolicySource::First(
    const std::string& yaml, const std::string& name) {
  current_ = yaml;
  auto decoded = config::DecodePolicy(yaml, name);
  const auto kept = last_good_.Load();
  if (!decoded) return LastGoodInstead(Join(decoded.error()), kept);
  if (kept && kept->held == yaml) {
    return LastGoodInstead(name + " was held, and has not been edited since", kept);
  }
  metrics_.SetPolicyReloadSuccessful(true);
  accepted_ = yaml;
  to_keep_ = {.policy = yaml, .held = {}};
  Keep();
  return std::move(*decoded);
}

std::expected<config::PolicyConfiguration, std::string> PolicySource::FirstOfNone(
    const std::string& name) {
  return LastGoodInstead(name + " does not exist", last_good_.Load());
}

std::expected<config::PolicyConfiguration, std::string> PolicySource::LastGoodInstead(
    const std::string& error, const std::optional<LastGoodPolicy::Texts>& kept) {
  metrics_.SetPolicyReloadSuccessful(false);
  last_error_ = error;
  if (refused_) refused_(last_error_);
  if (kept) {
    if (auto good = config::DecodeStoredPolicy(kept->policy, kConfigMap)) {
      accepted_ = kept->policy;
      logger_.Log(Severity::kError, "the policy is refused; the last good one is used",
                  {{"error", last_error_}});
      if (!good->left_out.empty()) {
        logger_.Log(Severity::kWarning,
                    "parts of the last good policy are unknown to this version: they are left out",
                    {{"error", Join(good->left_out)}});
      }
      return std::move(good->policy);
    }
  }
  return std::unexpected(last_error_);
}

void PolicySource::Update(const std::string& yaml, const std::string& name, const Apply& apply) {
  {
    const std::scoped_lock lock(mutex_);
    if (yaml == current_) return;
    current_ = yaml;
  }
  auto decoded = config::DecodePolicy(yaml, name);
  if (!decoded) return Refuse(yaml, Join(decoded.error()), /*held=*/false);
  if (const std::string why = hold_ ? hold_(*decoded) : std::string(); !why.empty()) {
    return Refuse(yaml, why, /*held=*/true);
  }
  apply(std::move(*decoded));
  metrics_.SetPolicyReloadSuccessful(true);
  {
    const std::scoped_lock lock(mutex_);
    last_error_.clear();
    accepted_ = yaml;
    to_keep_ = {.policy = yaml, .held = {}};
  }
  Keep();
  logger_.Log(Severity::kInfo, "policy reloaded", {{"from", name}});
}

void PolicySource::Refuse(const std::string& yaml, const std::string& error, bool held) {
  metrics_.SetPolicyReloadSuccessful(false);
  {
    const std::scoped_lock lock(mutex_);
    last_error_ = error;
    if (held) to_keep_ = {.policy = accepted_, .held = yaml};
  }
  if (held) Keep();
  logger_.Log(Severity::kError,
              held ? "the new policy is held; the current policy stays in force"
                   : "the new policy is refused; the last good policy stays in force",
              {{"error", error}});
  if (refused_) refused_(error);
}

void PolicySource::Gone(const std::string& name) { Lost(name + " does not exist"); }

void PolicySource::Lost(const std::string& error) {
  metrics_.SetPolicyReloadSuccessful(false);
  {
    const std::scoped_lock lock(mutex_);
    current_.clear();  // the same text again is a new version
    last_error_ = error;
  }
  logger_.Log(Severity::kError, "the policy cannot be read; the last good policy stays in force",
              {{"error", error}});
  if (refused_) refused_(error);
}

void PolicySource::Keep() {
  const std::scoped_lock one_at_a_time(keeping_);  // an older text must not overtake a newer one
  if (!may_write_()) return;
  std::optional<LastGoodPolicy::Texts> texts;
  {
    const std::scoped_lock lock(mutex_);
    texts = std::exchange(to_keep_, std::nullopt);
  }
  if (!texts || texts->policy.empty() || last_good_.Save(*texts)) return;
  const std::scoped_lock lock(mutex_);
  if (!to_keep_) to_keep_ = texts;
}

void PolicySource::WatchFile(const std::string& path, Apply apply) {
  watcher_ = std::jthread([this, path, apply = std::move(apply)](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    int missed = 0;
    while (!wake.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; })) {
      if (stop.stop_requested()) return;
      const auto yaml = ReadWatchedFile(path);
      if (yaml) {
        Update(*yaml, path, apply);
        missed = 0;
      } else if (++missed == kMissedReads) {
        Lost(yaml.error().message);
      }
    }
  });
}

std::string PolicySource::last_error() const {
  const std::scoped_lock lock(mutex_);
  return last_error_;
}

}  // namespace berth::server
