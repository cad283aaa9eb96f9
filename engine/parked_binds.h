// Bind calls that wait to be answered, by their tickets and by the pods that they are for: for the
// gang of the pod to start, or for the Binding that another call of the same pod has the host post.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/actions.h"

namespace berth::engine {

class ParkedBinds {
 public:
  /// One more call for the pod.
  TicketId Park(const std::string& uid);
  /// False: the call is not parked any more.
  bool Drop(TicketId ticket);
  /// One of the calls for the pod, which is not parked from now on; nullopt: there is none.
  std::optional<TicketId> TakeOne(const std::string& uid);
  /// All calls for the pod, which are not parked from now on.
  std::vector<TicketId> TakeAll(std::string_view uid);

  bool Has(const std::string& uid) const { return by_uid_.contains(uid); }
  std::size_t size() const { return uids_.size(); }

 private:
  TicketId next_ = 1;
  std::unordered_map<TicketId, std::string> uids_;
  std::unordered_multimap<std::string, TicketId> by_uid_;
};

}  // namespace berth::engine
