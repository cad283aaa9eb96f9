// Nodes that filter has named without holding room on them: for a pod that the informer does not
// know yet, for further nodes of a pod that is planned elsewhere, and for members of in-tree
// groups, which kube-scheduler places. If the bind call comes soon, it is judged then.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cluster/model.h"

namespace berth::engine {

using cluster::TimePoint;

class LiveAnswers {
 public:
  /// Forgets what was answered about the pod before; and everything, if it is too much.
  void Note(std::string_view uid, std::vector<std::string> nodes, TimePoint now);
  /// The first of the nodes that were named for the pod; null: none was.
  const std::string* First(std::string_view uid) const;
  /// Whether this node was among those that were named for the pod, and not too long ago. Forgets
  /// the answer.
  bool Take(std::string_view uid, std::string_view node, TimePoint now);
  void Forget(std::string_view uid);
  void ForgetExpired(TimePoint now);

 private:
  struct Answer {
    std::vector<std::string> nodes;
    TimePoint expires = 0;
  };
  std::unordered_map<std::string, Answer> answers_;  ///< By the UID of the pod.
};

}  // namespace berth::engine
