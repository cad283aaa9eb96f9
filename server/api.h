// The writes that the host makes on the engine's word. Two worlds implement it: a real API server
// (kube_api.h) and a cluster held in memory (embedded_cluster.h).
#pragma once

#include <functional>
#include <map>
#include <string>

#include "engine/actions.h"
#include "engine/engine.h"

namespace berth::server {

class Api {
 public:
  Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;
  virtual ~Api() = default;

  struct BindResult {
    engine::BindOutcome outcome = engine::BindOutcome::kUnknown;
    std::string message;
  };

  /// Posts the Binding with its annotations. Blocks; called from bind's own thread.
  virtual BindResult Bind(const engine::PodRef& pod, const std::string& node,
                          const std::map<std::string, std::string>& annotations) = 0;
  /// Nominates and annotates, in one write, then ungates, in another. `nominated` is called between
  /// the two, and may block for a moment. Empty text: done, or the pod is gone. Blocks.
  virtual std::string Release(const engine::ReleaseMember& release,
                              const std::function<void()>& nominated) = 0;
  /// Reads the pod from the source of truth: nullopt and no error means it is gone.
  struct ReadResult {
    std::optional<kube::Pod> pod;
    std::string error;
  };
  virtual ReadResult ReadPod(const engine::PodRef& pod) = 0;
  virtual void Event(const engine::EmitEvent& event) = 0;
};

}  // namespace berth::server
