// The value of the annotation `berth.dev/plan`: opaque to users, versioned. On rebuild it is only a
// claim (DESIGN 4): who reads it checks it against bound members and free room.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace berth::cluster {

inline constexpr std::string_view kPlanAnnotation = "berth.dev/plan";
inline constexpr std::string_view kShareAnnotation = "berth.dev/gpu-milli";
inline constexpr std::string_view kAdmissionGate = "berth.dev/admission";

struct PlanClaim {
  std::string plan;
  std::string node;
  std::string queue;  ///< The queue that was charged; fixes it over label edits and restarts.
  int rank = 0;
  bool operator==(const PlanClaim&) const = default;
};

/// `v1;plan=...;node=...;queue=...;rank=...`
std::string EncodePlanClaim(const PlanClaim& claim);

/// nullopt: another version, or nonsense. Unknown fields are skipped (version N reads N-1's).
std::optional<PlanClaim> DecodePlanClaim(std::string_view text);

}  // namespace berth::cluster
