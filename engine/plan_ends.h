// Why plans end before any member of theirs is bound, or members give their places up.
#pragma once

#include <string_view>

namespace berth::engine {

struct PlanEnd {
  /// For metrics: one of a few words, see docs/metrics.md, berth_evictions_in_vain_total.
  std::string_view token;
  std::string_view why;  ///< For people: the decision log, and answers to kube-scheduler.
};

namespace plan_ends {

// The work itself.
inline constexpr PlanEnd kWorkGone{"gone", "the work is gone"};
inline constexpr PlanEnd kMemberGone{"gone", "a member of the gang is gone"};
inline constexpr PlanEnd kNoneRuns{"gone", "no member of the gang runs any more"};
inline constexpr PlanEnd kAsksForElse{"changed", "a member changed what it asks for"};
inline constexpr PlanEnd kRefersToElse{"changed", "an object that its members refer to changed"};
inline constexpr PlanEnd kFaulty{"changed", "a member does not belong to the gang any more"};
inline constexpr PlanEnd kBoundAhead{"changed", "a member was bound before its gang started"};
// Other work.
inline constexpr PlanEnd kYields{"yields", "other work needs its room"};
inline constexpr PlanEnd kEvicted{"yields", "its gang is evicted"};
// The policy.
inline constexpr PlanEnd kPolicyChanged{"policy", "the policy changed"};
inline constexpr PlanEnd kPassthrough{"policy", "the policy's mode is passthrough"};
inline constexpr PlanEnd kOverLimit{"policy", "its queue is over its limit"};
// The nodes.
inline constexpr PlanEnd kNodeGone{"node", "a planned node is no longer available"};
inline constexpr PlanEnd kPodRejected{"node",
                                      "a kubelet rejected a pod of this shape on the planned node"};
// kube-scheduler.
inline constexpr PlanEnd kNodesRefused{"scheduler", "kube-scheduler refused the planned nodes"};
inline constexpr PlanEnd kNodeRefused{"scheduler", "the planned node was refused"};
inline constexpr PlanEnd kStartsWithout{"scheduler",
                                        "its gang starts without it: the planned node was refused"};
inline constexpr PlanEnd kNotInTime{"scheduler", "its members did not arrive in time"};
inline constexpr PlanEnd kBindingLost{"scheduler", "a Binding of a member did not take effect"};
// Its victims.
inline constexpr PlanEnd kWarningsOver{"victims", "the warning time of its victims is over"};
inline constexpr PlanEnd kComesAfter{"victims",
                                     "other work is planned first, whose victims had their time"};
inline constexpr PlanEnd kNoneNeeded{"victims", "it no longer needs evictions"};
inline constexpr PlanEnd kNoSurplus{
    "victims", "a gang now needs the members that were to be evicted as its surplus"};
inline constexpr PlanEnd kLacksObject{"changed", "an object that its members name does not exist"};
inline constexpr PlanEnd kEvictionRefused{"victims", "an eviction was refused"};
inline constexpr PlanEnd kQuotaStays{
    "victims", "pods that were expected to end still hold the quota that it needs"};
inline constexpr PlanEnd kVictimsStuck{"victims",
                                       "pods that were evicted for it have not terminated"};

}  // namespace plan_ends

}  // namespace berth::engine
