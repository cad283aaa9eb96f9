#include "server/drivers/policy_source.h"

#include <chrono>
#include <condition_variable>
#include <nlohmann/json.hpp>

#include "config/decode.h"

namespace berth::server {
namespace {

constexpr kube::Duration kSaveTimeout{5'000};

constexpr const char* kConfigMap = "berth-last-policy";
constexpr std::size_t kMaxPolicyBytes = std::size_t{1} << 20U;

std::string Join(const std::vector<config::Diagnostic>& diagnostics) {
  std::string text;
  for (const auto& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += diagnostic.ToString();
  }
  return text;
}

std::string PathOf(const std::string& ns) { return "/api/v1/namespaces/" + ns + "/configmaps"; }

}  // namespace

std::expected<std::string, kube::FileError> ReadPolicyFile(const std::string& path) {
  return kube::ReadFile(path, kMaxPolicyBytes);
}

std::optional<std::string> LastGoodPolicy::Load() const {
  if (client_ == nullptr) return std::nullopt;
  kube::Request request;
  request.path = PathOf(ns_) + "/" + kConfigMap;
  const auto response = client_->Do(request, {});
  if (!response || !response->Ok()) return std::nullopt;
  const auto json = nlohmann::json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto data = json.find("data");
  if (data == json.end() || !data->is_object()) return std::nullopt;
  const auto yaml = data->find("policy.yaml");
  if (yaml == data->end() || !yaml->is_string()) return std::nullopt;
  return yaml->get<std::string>();
}

bool LastGoodPolicy::Save(const std::string& yaml) const {
  if (client_ == nullptr) return true;
  const nlohmann::json object{{"apiVersion", "v1"},
                              {"kind", "ConfigMap"},
                              {"metadata", {{"name", kConfigMap}, {"namespace", ns_}}},
                              {"data", {{"policy.yaml", yaml}}}};
  kube::Request request;
  request.timeout = kSaveTimeout;
  request.method = "PUT";
  request.path = PathOf(ns_) + "/" + kConfigMap;
  request.body = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  auto response = client_->Do(request, {});
  if (response && response->status == 404) {
    request.method = "POST";
    request.path = PathOf(ns_);
    response = client_->Do(request, {});
  }
  if (response && response->Ok()) return true;
  logger_.Log(Severity::kWarning, "the last good policy could not be kept",
              {{"namespace", ns_},
               {"error", response ? response->body.substr(0, 200) : response.error().message}});
  return false;
}

std::expected<config::PolicyConfiguration, std::string> PolicySource::First(
    const std::string& yaml, const std::string& name) {
  current_ = yaml;
  auto decoded = config::DecodePolicy(yaml, name);
  if (!decoded) return LastGoodInstead(Join(decoded.error()));
  metrics_.SetPolicyReloadSuccessful(true);
  to_keep_ = yaml;
  Keep();
  return std::move(*decoded);
}

std::expected<config::PolicyConfiguration, std::string> PolicySource::FirstOfNone(
    const std::string& name) {
  return LastGoodInstead(name + " does not exist");
}

std::expected<config::PolicyConfiguration, std::string> PolicySource::LastGoodInstead(
    const std::string& error) {
  metrics_.SetPolicyReloadSuccessful(false);
  last_error_ = error;
  if (refused_) refused_(last_error_);
  if (const auto kept = last_good_.Load()) {
    if (auto good = config::DecodeStoredPolicy(*kept, kConfigMap)) {
      logger_.Log(Severity::kError, "the policy is refused; the last good one is used",
                  {{"error", last_error_}});
      if (!good->left_out.empty()) {
        logger_.Log(Severity::kWarning,
                    "parts of the last good policy are not known here: left out",
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
  metrics_.SetPolicyReloadSuccessful(decoded.has_value());
  {
    const std::scoped_lock lock(mutex_);
    last_error_ = decoded ? std::string() : Join(decoded.error());
  }
  if (!decoded) {
    logger_.Log(Severity::kError, "the new policy is refused; the last good one stays",
                {{"error", last_error()}});
    if (refused_) refused_(last_error());
    return;
  }
  apply(std::move(*decoded));
  {
    const std::scoped_lock lock(mutex_);
    to_keep_ = yaml;
  }
  Keep();
  logger_.Log(Severity::kInfo, "policy reloaded", {{"from", name}});
}

void PolicySource::Gone(const std::string& name) {
  metrics_.SetPolicyReloadSuccessful(false);
  const std::string error = name + " does not exist";
  {
    const std::scoped_lock lock(mutex_);
    current_.clear();  // the same text again is a new version
    last_error_ = error;
  }
  logger_.Log(Severity::kError, "the policy is gone; the last good one stays", {{"error", error}});
  if (refused_) refused_(error);
}

void PolicySource::Keep() {
  const std::scoped_lock one_at_a_time(keeping_);  // an older text must not overtake a newer one
  if (!may_write_()) return;
  std::string yaml;
  {
    const std::scoped_lock lock(mutex_);
    yaml = std::exchange(to_keep_, {});
  }
  if (yaml.empty() || last_good_.Save(yaml)) return;
  const std::scoped_lock lock(mutex_);
  if (to_keep_.empty()) to_keep_ = yaml;
}

void PolicySource::WatchFile(const std::string& path, Apply apply) {
  watcher_ = std::jthread([this, path, apply = std::move(apply)](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; })) {
      if (stop.stop_requested()) return;
      if (const auto yaml = ReadPolicyFile(path)) Update(*yaml, path, apply);
    }
  });
}

std::string PolicySource::last_error() const {
  const std::scoped_lock lock(mutex_);
  return last_error_;
}

}  // namespace berth::server
