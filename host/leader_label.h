// The label that the Service selects: which pods carry it, and which should. Pure state fed by the
// pod informer; its owner makes the writes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kube/http.h"
#include "kube/objects.h"
#include "kube/requests.h"

namespace berth::host {

inline constexpr const char* kLeaderLabel = "berth.dev/leader";
/// Set on the pod of a new leader: a token that is unique to its term. See Shows.
inline constexpr const char* kLeadingAnnotation = "berth.dev/leading";

/// Not thread-safe.
class LeaderLabel {
 public:
  /// The pod that this process runs in. Empty names: it runs in none, and there is nothing to
  /// label.
  LeaderLabel(std::string ns, std::string name) : ns_(std::move(ns)), name_(std::move(name)) {}

  bool enabled() const { return !ns_.empty() && !name_.empty(); }

  /// Takes in the state of any pod from the informer; only pods of our namespace matter. True:
  /// another pod carried the label and does not any more, so that the Lease may be free.
  bool See(const kube::Pod& pod);
  /// The same for a pod that is gone.
  bool SeeDeleted(std::string_view uid);

  /// A label to put on (`set`) or to take off.
  struct Patch {
    kube::PodRef pod;
    bool set = false;
  };
  /// The changes that are needed, removals first: a leader must be the only pod with the label, a
  /// follower must not have it. Followers leave other pods as they are.
  std::vector<Patch> Wrong(bool leading) const;

  /// Whether our pod was seen with this token. If so, every earlier write to any pod has been seen
  /// too, since a watch delivers writes in their order.
  bool Shows(std::string_view token) const { return !token.empty() && token_ == token; }

  /// The patch of our own pod that puts the label on, together with the token.
  kube::Request TakeOver(std::string_view token) const;
  /// The request that carries `patch` out.
  static kube::Request Call(const Patch& patch);

 private:
  struct Carrier {
    std::string name;
    bool labelled = false;
  };

  const std::string ns_;
  const std::string name_;
  std::map<std::string, Carrier, std::less<>> pods_;  ///< By UID: ours, and those with the label.
  std::string token_;
};

}  // namespace berth::host
