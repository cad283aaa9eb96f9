#include "server/drivers/usage_keeper.h"

#include <pthread.h>

#include "server/drivers/config_map.h"
#include "server/drivers/usage_text.h"
#include "server/ops/views.h"

namespace berth::server {
namespace {

constexpr kube::Duration kUsageTimeout{3'000};
constexpr const char* kUsageConfigMap = "berth-usage";
constexpr const char* kUsageKey = "usage.json";

bool SameUse(const cluster::UsageRecord& a, const cluster::UsageRecord& b) {
  return a.queues == b.queues && a.users == b.users && a.other_queues == b.other_queues &&
         a.other_users == b.other_users;
}

}  // namespace

UsageKeeper::UsageKeeper(HostDriver& host, kube::RestClient& client, Tenure& tenure, std::string ns,
                         Metrics& metrics, Logger& logger, Pace pace)
    : host_(host),
      client_(client),
      tenure_(tenure),
      ns_(std::move(ns)),
      metrics_(metrics),
      logger_(logger),
      pace_(pace) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

UsageKeeper::~UsageKeeper() = default;

void UsageKeeper::Begin() {
  const std::scoped_lock lock(mutex_);
  active_ = true;
  ++term_;
  changed_.notify_all();
}

void UsageKeeper::End() {
  bool counted = false;
  {
    const std::scoped_lock lock(mutex_);
    counted = std::exchange(active_, false) && counted_in_ == term_;
  }
  const std::scoped_lock one_at_a_time(writing_);
  if (counted) Write();
  metrics_.ReplaceUsage({});
}

void UsageKeeper::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "usage");  // for `ps -L` and debuggers
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const std::uint64_t term = term_;
    const bool counts = counted_in_ == term;
    bool read = false;
    if (active_) {
      lock.unlock();
      read = counts || Read(stop);
      if (read) WriteIn(term);
      lock.lock();
      if (read) counted_in_ = term;
    }
    const auto news = [&] { return term_ != term; };
    if (active_) {
      changed_.wait_for(lock, stop, read ? pace_.between_writes : pace_.before_retry, news);
    } else {
      changed_.wait(lock, stop, news);
    }
  }
}

/// False: it could not be read, and nothing counts yet: what is there must not be overwritten.
bool UsageKeeper::Read(const std::stop_token& stop) {
  const auto texts = ReadConfigMap(client_, ns_, kUsageConfigMap, kUsageTimeout, stop);
  if (!texts) {
    Report("could not be read: " + texts.error());
    return false;
  }
  DecodedUsage decoded;
  if (const auto& kept = *texts) {
    const auto text = kept->find(kUsageKey);
    decoded = DecodeUsage(text == kept->end() ? std::string() : text->second);
  }
  if (!decoded.problems.empty()) {
    std::string left_out;
    for (const std::string& problem : decoded.problems) {
      left_out += (left_out.empty() ? "" : ", ") + problem;
    }
    logger_.Log(Severity::kWarning,
                "a part of the recorded usage of queues cannot be read: it is left out",
                {{"configmap", ns_ + "/" + kUsageConfigMap}, {"parts", left_out}});
  }
  host_.Apply([&](engine::Engine& engine, engine::TimePoint now) {
    engine.BeginUsage(decoded.record, now);
  });
  {
    const std::scoped_lock lock(writing_);
    written_.reset();  // another leader may have written meanwhile
  }
  Report("");
  return true;
}

/// Not after the end of the term.
void UsageKeeper::WriteIn(std::uint64_t term) {
  const std::scoped_lock one_at_a_time(writing_);
  {
    const std::scoped_lock lock(mutex_);
    if (!active_ || term_ != term) return;
  }
  Write();
}

/// REQUIRES: `writing_`.
void UsageKeeper::Write() {
  const auto permit = tenure_.Enter(kUsageTimeout);
  if (!permit) return;
  auto record = host_.Look(
      [](const engine::Engine& engine, auto now) { return engine.store().UsageUntil(now); });
  // Whoever comes to run later counts since then anyway.
  if (!record || (written_ && SameUse(*record, *written_))) return;
  const auto written =
      WriteConfigMap(client_, ns_, kUsageConfigMap, {{kUsageKey, EncodeUsage(*record)}},
                     permit->timeout, permit->stop);
  if (!written) return Report("could not be written: " + written.error());
  FeedUsage(*record, metrics_);
  written_ = std::move(record);
  Report("");
}

/// Each kind of error once, until it is overcome.
void UsageKeeper::Report(const std::string& error) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(reported_, error) == error || error.empty()) return;
  }
  logger_.Log(Severity::kWarning, "the usage of queues is not saved",
              {{"configmap", ns_ + "/" + kUsageConfigMap}, {"error", error}});
}

}  // namespace berth::server
