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

  host::Result CarryOut(const host::ApiOrder& order, const Wanted& wanted) override;
  void Event(const engine::EmitEvent& event) override;

 private:
  kube::WriteOptions Options(const Tenure::Permit& permit, const Wanted& wanted) const;

  kube::Writer& writer_;
  Tenure& tenure_;
  Metrics& metrics_;
  Logger& logger_;
  std::mutex mutex_;
  EventSeries series_;
};

}  // namespace berth::server
