#include "cluster/plan_claim.h"

#include <fmt/format.h>

#include <charconv>

namespace berth::cluster {
namespace {

constexpr std::string_view kVersion = "v1";
constexpr std::size_t kMaxLength = 1024;

}  // namespace

std::string EncodePlanClaim(const PlanClaim& claim) {
  return fmt::format("{};plan={};node={};queue={};rank={}", kVersion, claim.plan, claim.node,
                     claim.queue, claim.rank);
}

std::optional<PlanClaim> DecodePlanClaim(std::string_view text) {
  if (text.size() > kMaxLength) return std::nullopt;
  PlanClaim claim;
  bool first = true;
  while (!text.empty()) {
    const auto end = text.find(';');
    const std::string_view field = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (first) {
      if (field != kVersion) return std::nullopt;
      first = false;
      continue;
    }
    const auto eq = field.find('=');
    if (eq == std::string_view::npos) return std::nullopt;
    const std::string_view key = field.substr(0, eq);
    const std::string_view value = field.substr(eq + 1);
    if (key == "plan") claim.plan = value;
    if (key == "node") claim.node = value;
    if (key == "queue") claim.queue = value;
    if (key == "rank") {
      const auto [stop, code] =
          std::from_chars(value.data(), value.data() + value.size(), claim.rank);
      if (code != std::errc{} || stop != value.data() + value.size()) return std::nullopt;
    }
  }
  if (claim.plan.empty() || claim.node.empty()) return std::nullopt;
  return claim;
}

}  // namespace berth::cluster
