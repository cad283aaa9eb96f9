// Who is told of what the store is about to forget.
#pragma once

#include "cluster/model.h"

namespace berth::cluster {

/// Is told of members and workloads that no longer exist, before they are destroyed, so that others
/// can drop what they keep about them. May not call the store.
class StoreListener {
 public:
  virtual ~StoreListener() = default;
  /// `pod` has left `workload`: it has ended, or claims another gang.
  virtual void OnMemberLeft(const Workload& workload, const PodInfo& pod) = 0;
  /// See Store::BeginIncarnation.
  virtual void OnNewIncarnation(const Workload& workload) = 0;
  /// It has no member any more.
  virtual void OnWorkloadGone(const Workload& workload) = 0;
  virtual void OnPodGone(const PodInfo& pod) = 0;
};

}  // namespace berth::cluster
