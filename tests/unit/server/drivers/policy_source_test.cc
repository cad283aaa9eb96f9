// Versions of the policy that come, are refused, or cannot be read.
#include "server/drivers/policy_source.h"

#include <chrono>
#include <semaphore>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace berth::server {
namespace {

const std::string kPolicy = "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\n";

struct Fixture {
  bool successful() const {
    return metrics.Serialize().find("\nberth_policy_last_reload_successful 1\n") !=
           std::string::npos;
  }

  std::vector<std::string> lines;
  std::counting_semaphore<> logged{0};  ///< A thread of the logger's own writes the lines.
  Logger logger{LogFormat::kText, 0, [this](std::string_view line) {
                  lines.emplace_back(line);
                  logged.release();
                }};
  Metrics metrics{{.version = "v", .commit = "c", .compiler = "g++"}};
  int applied = 0;
  PolicySource::Apply apply = [this](const config::PolicyConfiguration&) { ++applied; };
  PolicySource source{logger, metrics, LastGoodPolicy(nullptr, "ns", logger), [] { return true; }};
};

TEST_CASE("a policy that cannot be read any more is told, and read again when it is back",
          "[policy_source]") {
  Fixture f;
  REQUIRE(f.source.First(kPolicy, "policy.yaml"));
  CHECK(f.successful());
  f.source.Lost("policy.yaml: larger than 1 MiB");
  CHECK_FALSE(f.successful());
  CHECK(f.source.last_error() == "policy.yaml: larger than 1 MiB");
  REQUIRE(f.logged.try_acquire_for(std::chrono::seconds(30)));
  REQUIRE(f.lines.size() == 1);
  CHECK_THAT(f.lines[0], Catch::Contains("cannot be read") && Catch::Contains("larger than 1 MiB"));
  f.source.Update(kPolicy, "policy.yaml", f.apply);
  CHECK(f.applied == 1);
  CHECK(f.successful());
  CHECK(f.source.last_error().empty());
}

TEST_CASE("the same text is no new version", "[policy_source]") {
  Fixture f;
  REQUIRE(f.source.First(kPolicy, "policy.yaml"));
  f.source.Update(kPolicy, "policy.yaml", f.apply);
  CHECK(f.applied == 0);
}

}  // namespace
}  // namespace berth::server
