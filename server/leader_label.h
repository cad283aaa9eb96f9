// The label that the Service selects: which pods carry it, and which should. A plain value fed by
// the pod informer; whoever owns it makes the writes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kube/objects.h"
#include "kube/rest_client.h"
#include "kube/writer.h"

namespace berth::server {

inline constexpr const char* kLeaderLabel = "berth.dev/leader";
/// On the pod of whoever took over, a word of that one's own: see Shows.
inline constexpr const char* kLeadingAnnotation = "berth.dev/leading";

/// Not thread-safe.
class LeaderLabel {
 public:
  /// The pod that this process runs in. Empty names: in none, so that there is nothing to label.
  LeaderLabel(std::string ns, std::string name) : ns_(std::move(ns)), name_(std::move(name)) {}

  bool enabled() const { return !ns_.empty() && !name_.empty(); }

  /// What the informer says of any pod; only those of our namespace matter. True: another pod
  /// carried the label and does not any more, so that the Lease may be free.
  bool See(const kube::Pod& pod);
  bool SeeDeleted(std::string_view uid);

  /// A label to put on (`set`) or to take off.
  struct Patch {
    kube::PodRef pod;
    bool set = false;
  };
  /// What is not as it should be, what is to be taken off first: a leader carries the label alone,
  /// a follower does not. Followers leave other pods as they are.
  std::vector<Patch> Wrong(bool leading) const;

  /// Whether our pod was seen with this word. Then every write to any pod that was made before it
  /// has been seen too, since watches tell of writes in their order.
  bool Shows(std::string_view word) const { return !word.empty() && word_ == word; }

  /// The patch of our own pod that puts the label on together with a word.
  kube::Request TakeOver(std::string_view word) const;
  static kube::Request Call(const Patch& patch);

 private:
  struct Carrier {
    std::string name;
    bool labelled = false;
  };

  const std::string ns_;
  const std::string name_;
  std::map<std::string, Carrier, std::less<>> pods_;  ///< By UID: ours, and those with the label.
  std::string word_;
};

}  // namespace berth::server
