// Implements Api on a real API server. Writes are made only while this process leads, which is
// checked before each attempt: what a former leader still wants written is refused here.
#pragma once

#include <mutex>

#include "kube/writer.h"
#include "server/drivers/api.h"
#include "server/drivers/event_series.h"
#include "server/drivers/tenure.h"
#include "server/logging.h"
#include "server/ops/metrics.h"

namespace berth::server {

class KubeApi final : public Api {
 public:
  /// The references must outlive it.
  KubeApi(kube::Writer& writer, Tenure& tenure, Metrics& metrics, Logger& logger)
      : writer_(writer), tenure_(tenure), metrics_(metrics), logger_(logger) {}

  host::Result Bind(const host::PostBinding& binding, const Wanted& wanted) override;
  host::Result Nominate(const host::Nominate& nomination, const Wanted& wanted) override;
  host::Result RemoveGate(const host::RemoveGate& removal, const Wanted& wanted) override;
  host::Result Mark(const host::MarkVictim& mark, const Wanted& wanted) override;
  host::Result Evict(const host::Evict& eviction, const Wanted& wanted) override;
  host::Result Find(const host::FindObject& order) override;
  host::Result ReadJobs(const host::ReadJobs& order) override;
  host::Result SuspendJob(const host::SuspendJob& order, const Wanted& wanted) override;
  host::Result ReadPod(const engine::PodRef& pod) override;
  void Event(const engine::EmitEvent& event) override;

 private:
  kube::WriteOptions Options(const Tenure::Permit& permit, const Wanted& wanted) const;
  template <typename Write>
  host::Result WhileLeading(kube::Duration timeout, const Wanted& wanted, Write write);

  kube::Writer& writer_;
  Tenure& tenure_;
  Metrics& metrics_;
  Logger& logger_;
  std::mutex mutex_;
  EventSeries series_;
};

}  // namespace berth::server
