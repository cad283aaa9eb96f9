#include "cluster/plan_claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "cluster/resources.h"

namespace berth::cluster {
namespace {

constexpr std::string_view kVersion = "v1";
constexpr std::string_view kSurplus = " surplus";  // no key contains a space
constexpr int kMostEvictions = 1'000'000;          // no job comes near it
constexpr std::size_t kMaxLength = std::size_t{32} * 1024;

template <typename Number>
bool ReadNumber(std::string_view text, Number& number) {
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc{} && stop == text.data() + text.size();
}

/// `NAME:AMOUNT,...`
bool ReadCharge(std::string_view text, PlanClaim& claim) {
  while (!text.empty()) {
    const auto end = text.find(',');
    const std::string_view entry = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const auto colon = entry.find(':');
    if (colon == 0 || colon == std::string_view::npos) return false;
    std::int64_t& amount = claim.charge[std::string(entry.substr(0, colon))];
    if (!ReadNumber(entry.substr(colon + 1), amount) || amount < 0 || amount >= kAbsurdAmount) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string EncodePlanClaim(const PlanClaim& claim) {
  std::string text = fmt::format("{};plan={};node={};queue={};rank={}", kVersion, claim.plan,
                                 claim.node, claim.queue, claim.rank);
  std::string_view separator = ";charge=";
  for (const auto& [name, amount] : claim.charge) {
    text += fmt::format("{}{}:{}", std::exchange(separator, ","), name, amount);
  }
  if (claim.preemptible) text += fmt::format(";preemptible={}", *claim.preemptible);
  if (!claim.user.empty()) text += fmt::format(";user={}", claim.user);
  if (claim.evictions > 0) {
    text += fmt::format(";evictions={};since={}", claim.evictions, claim.since);
  }
  return text;
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
    if (key == "rank" && !ReadNumber(value, claim.rank)) return std::nullopt;
    if (key == "user") claim.user = value;
    if (key == "evictions" && !ReadNumber(value, claim.evictions)) return std::nullopt;
    if (key == "since" && !ReadNumber(value, claim.since)) return std::nullopt;
    if (key == "preemptible") claim.preemptible = value != "false";
    if (key == "charge" && !ReadCharge(value, claim)) return std::nullopt;
  }
  if (claim.plan.empty() || claim.node.empty()) return std::nullopt;
  claim.evictions = std::clamp(claim.evictions, 0, kMostEvictions);
  return claim;
}

std::optional<PlanClaim> ClaimOf(const kube::Pod& pod) {
  const auto note = pod.meta.annotations.find(kPlanAnnotation);
  if (note == pod.meta.annotations.end()) return std::nullopt;
  return DecodePlanClaim(note->second);
}

std::optional<PlanClaim> BoundClaimOf(const kube::Pod& pod) {
  if (pod.node_name.empty()) return std::nullopt;
  auto claim = ClaimOf(pod);
  return claim && claim->node == pod.node_name ? std::move(claim) : std::nullopt;
}

std::string EncodeEvictionMark(const EvictionMark& mark) {
  return mark.surplus ? mark.workload + std::string(kSurplus) : mark.workload;
}

std::optional<EvictionMark> EvictionMarkOf(const kube::Pod& pod) {
  const auto note = pod.meta.annotations.find(kEvictedForAnnotation);
  if (note == pod.meta.annotations.end()) return std::nullopt;
  const std::string_view text = note->second;
  if (!text.ends_with(kSurplus)) return EvictionMark{.workload = note->second};
  return EvictionMark{.workload = std::string(text.substr(0, text.size() - kSurplus.size())),
                      .surplus = true};
}

}  // namespace berth::cluster
