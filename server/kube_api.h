// Api on a real API server. Writes are made only while this process leads, down to each single
// attempt: what a former leader still wants done is refused here, whoever asks.
#pragma once

#include <mutex>

#include "kube/writer.h"
#include "server/api.h"
#include "server/event_series.h"
#include "server/logging.h"
#include "server/metrics.h"
#include "server/tenure.h"

namespace berth::server {

class KubeApi final : public Api {
 public:
  /// The references must outlive it.
  KubeApi(kube::Writer& writer, Tenure& tenure, Metrics& metrics, Logger& logger)
      : writer_(writer), tenure_(tenure), metrics_(metrics), logger_(logger) {}

  BindResult Bind(const engine::PodRef& pod, const std::string& node,
                  const std::map<std::string, std::string>& annotations) override;
  std::string Release(const engine::ReleaseMember& release,
                      const std::function<void()>& nominated) override;
  ReadResult ReadPod(const engine::PodRef& pod) override;
  void Event(const engine::EmitEvent& event) override;

 private:
  kube::WriteOptions Options(const Tenure::Permit& permit) const;

  kube::Writer& writer_;
  Tenure& tenure_;
  Metrics& metrics_;
  Logger& logger_;
  std::mutex mutex_;
  EventSeries series_;
};

}  // namespace berth::server
