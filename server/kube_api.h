// Api on a real API server. Writes are made only while this process leads, down to each single
// attempt: what a former leader still wants done is refused here, whoever asks.
#pragma once

#include <map>
#include <mutex>

#include "kube/writer.h"
#include "server/api.h"
#include "server/logging.h"
#include "server/tenure.h"

namespace berth::server {

class KubeApi final : public Api {
 public:
  /// The references must outlive it.
  KubeApi(kube::Writer& writer, Tenure& tenure, Logger& logger)
      : writer_(writer), tenure_(tenure), logger_(logger) {}

  BindResult Bind(const engine::PodRef& pod, const std::string& node,
                  const std::map<std::string, std::string>& annotations) override;
  std::string Release(const engine::ReleaseMember& release) override;
  ReadResult ReadPod(const engine::PodRef& pod) override;
  void Event(const engine::EmitEvent& event) override;

 private:
  /// One Event object per pod and reason: repeats count up in it.
  struct Series {
    kube::EventRecord record;
    int count = 0;
    kube::MicroTime last;
  };
  static constexpr std::size_t kMaxSeries = 10'000;

  kube::WriteOptions Options(const Tenure::Permit& permit) const;

  kube::Writer& writer_;
  Tenure& tenure_;
  Logger& logger_;
  std::mutex mutex_;
  std::map<std::string, Series> series_;
};

}  // namespace berth::server
