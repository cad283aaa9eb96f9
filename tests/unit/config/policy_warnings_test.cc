#include "config/policy_warnings.h"

#include "tests/support/catch.h"

namespace berth::config {
namespace {

using Names = std::vector<std::string>;

std::string WarningOf(std::vector<Queue> queues) {
  PolicyConfiguration policy;
  policy.queues = std::move(queues);
  const auto warnings = PolicyWarnings(policy);
  REQUIRE(warnings.size() <= 1);
  return warnings.empty() ? std::string() : warnings.front();
}

TEST_CASE("a policy that refuses unlabelled pods, or everybody, is warned of") {
  const Queue team{.name = "team", .namespaces = Names{"team"}};
  const Queue open{.name = "open", .namespaces = Names{"team", "*"}};
  const Queue group{.name = "group"};
  const Queue empty{.name = "empty", .namespaces = Names{}};
  const auto fallback = [](Names names) { return Queue{.name = "default", .namespaces = names}; };
  CHECK(PolicyWarnings(PolicyConfiguration{}).empty());
  CHECK(WarningOf({team, fallback({"*"})}).empty());
  CHECK(WarningOf({team, open, fallback({"a", "*"})}).empty());
  CHECK(WarningOf({group, empty}).find("every pod") != std::string::npos);
  for (const auto& queues : {std::vector{team, group}, std::vector{team, fallback({"a"})},
                             std::vector{team, Queue{.name = "default"}}}) {
    CHECK(WarningOf(queues).find("add a queue default") != std::string::npos);
  }
  CHECK(WarningOf({team, open}).find("queue open admits all") != std::string::npos);
  CHECK(WarningOf({open, fallback({"a"})}).find("queue open admits all") != std::string::npos);
}

}  // namespace
}  // namespace berth::config
