#include "server/ops/metrics.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "server/http/http_server.h"
#include "tests/support/catch.h"

namespace berth::server {
namespace {

const BuildInfo kBuild{.version = "0.1.0", .commit = "abc", .compiler = "g++"};

bool Has(const Metrics& metrics, const std::string& line) {
  return ("\n" + metrics.Serialize()).find("\n" + line + "\n") != std::string::npos;
}

std::size_t LinesWith(const Metrics& metrics, const std::string& start) {
  const auto page = "\n" + metrics.Serialize();
  std::size_t count = 0;
  for (auto at = page.find("\n" + start); at != page.npos; at = page.find("\n" + start, at + 1)) {
    ++count;
  }
  return count;
}

TEST_CASE("docs/metrics.md is what the table says", "[metrics]") {
  const std::string path = BERTH_SOURCE_DIR "/docs/metrics.md";
  if (std::getenv("BERTH_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << MetricsReference();
  std::ifstream file(path);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  INFO("BERTH_UPDATE_GOLDEN=1 writes it again");
  CHECK(page == MetricsReference());
}

TEST_CASE("counters and histograms count", "[metrics]") {
  Metrics m(kBuild);
  m.ObserveRequest(Verb::kFilter, 200, 0.0003);
  m.ObserveRequest(Verb::kFilter, 503, 1);
  CHECK(
      Has(m, R"(berth_request_duration_seconds_bucket{code="200",verb="filter",le="0.00025"} 0)"));
  CHECK(Has(m, R"(berth_request_duration_seconds_bucket{code="200",verb="filter",le="0.0005"} 1)"));
  CHECK(Has(m, R"(berth_request_duration_seconds_count{code="503",verb="filter"} 1)"));
  m.CountHttpEvent("verbs", HttpEvent::kTooLarge);
  CHECK(Has(m, R"(berth_http_events_total{event="too_large",listener="verbs"} 1)"));
  m.CountBind("bound");
  m.CountBind("bound");
  m.CountEviction("quota");
  m.CountWatchRestart("pods", "expired");
  m.ObserveGangWait(3 * 86400.0);
  CHECK(Has(m, R"(berth_binds_total{result="bound"} 2)"));
  CHECK(Has(m, R"(berth_evictions_total{reason="quota"} 1)"));
  CHECK(Has(m, R"(berth_watch_restarts_total{reason="expired",resource="pods"} 1)"));
  CHECK(Has(m, R"(berth_gang_wait_seconds_bucket{le="172800"} 0)"));
  CHECK(Has(m, R"(berth_gang_wait_seconds_bucket{le="345600"} 1)"));
  m.SetLeader(true);
  m.SetPolicyReloadSuccessful(false);
  m.SetSnapshotAge(1.5);
  CHECK(Has(m, "berth_leader 1"));
  CHECK(Has(m, "berth_policy_last_reload_successful 0"));
  CHECK(Has(m, "berth_snapshot_age_seconds 1.5"));
  CHECK(LinesWith(m, "process_resident_memory_bytes ") == 1);
}

TEST_CASE("what is gone is not exported", "[metrics]") {
  Metrics m(kBuild);
  m.ReplaceQueues(std::vector<QueueRow>{
      {"a", "gpu", 3, 4, 8, 0, 5}, {"b", "gpu", 1, 2, {}}, {"b", "cpu", 3, 1, {}, 2}});
  CHECK(Has(m, R"(berth_queue_used{queue="a",resource="gpu"} 3)"));
  CHECK(Has(m, R"(berth_queue_limit{queue="a",resource="gpu"} 8)"));
  CHECK(Has(m, R"(berth_queue_quota{queue="b",resource="gpu"} 2)"));
  CHECK(LinesWith(m, "berth_queue_limit{") == 1);
  CHECK(Has(m, R"(berth_queue_fair_share{queue="a",resource="gpu"} 5)"));
  CHECK(LinesWith(m, "berth_queue_fair_share{") == 1);
  CHECK(Has(m, R"(berth_queue_borrowed{queue="a",resource="gpu"} 0)"));
  CHECK(Has(m, R"(berth_queue_borrowed{queue="b",resource="cpu"} 2)"));
  m.ReplaceQueues(std::vector<QueueRow>{{"b", "gpu", 1, 2, {}}});
  CHECK(LinesWith(m, R"(berth_queue_used{queue="a")") == 0);
  CHECK(LinesWith(m, "berth_queue_limit{") == 0);
  m.ReplaceGangs(std::vector<LabelledValue>{{"running", 2}});
  m.ReplaceGangs({});
  CHECK(LinesWith(m, "berth_gangs{") == 0);
  m.ReplaceLargestGangs(std::vector<LargestGangRow>{{"rack", 8, 16}});
  CHECK(Has(m, R"(berth_largest_placeable_gang_pods{level="rack",pod_gpus="8"} 16)"));
}

TEST_CASE("queue labels are bounded, and the sums stay whole", "[metrics]") {
  Metrics m(kBuild);
  std::vector<QueueRow> rows;
  std::vector<PendingRow> pending;
  for (int i = 0; i < 130; ++i) {
    const auto queue = "q" + std::to_string(i);
    rows.push_back({queue, "gpu", static_cast<double>(i), 0, 1, 1, 2});
    pending.push_back({queue, "WaitingForQuota", 1});
  }
  m.ReplaceQueues(rows);
  m.ReplacePending(pending);
  CHECK(LinesWith(m, "berth_queue_used{") == kMaxQueueLabels + 1);
  CHECK(LinesWith(m, R"(berth_queue_used{queue="q129")") == 1);
  CHECK(Has(m, R"(berth_queue_used{queue="other",resource="gpu"} 435)"));  // 0 + 1 + ... + 29.
  CHECK(Has(m, R"(berth_queue_limit{queue="other",resource="gpu"} 30)"));
  CHECK(Has(m, R"(berth_queue_borrowed{queue="other",resource="gpu"} 30)"));
  CHECK(Has(m, R"(berth_queue_fair_share{queue="other",resource="gpu"} 60)"));
  CHECK(LinesWith(m, "berth_pending_workloads{") == kMaxQueueLabels + 1);
  CHECK(Has(m, R"(berth_pending_workloads{queue="other",reason="WaitingForQuota"} 30)"));
  // What is below a queue of the sum is in its amounts already. And a queue called so is in it,
  // too.
  rows.push_back(
      {.queue = "below", .resource = "gpu", .used = 0.5, .quota = 0.25, .parent = "q29"});
  rows.push_back({.queue = "other", .resource = "gpu", .used = 1'000});
  m.ReplaceQueues(rows);
  CHECK(LinesWith(m, R"(berth_queue_used{queue="other",resource="gpu"})") == 1);
  CHECK(Has(m, R"(berth_queue_used{queue="other",resource="gpu"} 1435)"));
  CHECK(Has(m, R"(berth_queue_quota{queue="other",resource="gpu"} 0.25)"));  // q29 has none
  rows.resize(130);
  rows.front().limit.reset();  // One of them has no limit: then the rest together has none.
  m.ReplaceQueues(rows);
  CHECK(LinesWith(m, R"(berth_queue_limit{queue="other")") == 0);
}

TEST_CASE("amounts of single flavors have metrics of their own", "[metrics]") {
  Metrics m(kBuild);
  std::vector<QueueRow> rows{{.queue = "a", .resource = "gpu", .used = 3, .quota = 4}};
  rows.push_back(
      {.queue = "a", .resource = "gpu", .used = 1, .quota = 2, .limit = 5, .flavor = "h100"});
  rows.push_back({.queue = "a", .resource = "gpu", .used = 2, .flavor = "a100"});
  m.ReplaceQueues(rows);
  CHECK(Has(m, R"(berth_queue_used{queue="a",resource="gpu"} 3)"));
  CHECK(Has(m, R"(berth_queue_flavor_used{queue="a",flavor="h100",resource="gpu"} 1)"));
  CHECK(Has(m, R"(berth_queue_flavor_quota{queue="a",flavor="h100",resource="gpu"} 2)"));
  CHECK(Has(m, R"(berth_queue_flavor_limit{queue="a",flavor="h100",resource="gpu"} 5)"));
  CHECK(Has(m, R"(berth_queue_flavor_used{queue="a",flavor="a100",resource="gpu"} 2)"));
  CHECK(LinesWith(m, "berth_queue_flavor_limit{") == 1);
  SECTION("the small queues are summed up by flavor") {
    for (int i = 0; i < 110; ++i) {
      const auto queue = "q" + std::to_string(i);
      rows.push_back({.queue = queue, .resource = "gpu", .quota = 10});
      rows.push_back({.queue = queue, .resource = "gpu", .used = 1, .flavor = "h100"});
    }
    m.ReplaceQueues(rows);
    CHECK(LinesWith(m, R"(berth_queue_flavor_used{queue="q)") == kMaxQueueLabels);
    // Queue a and ten others are not among the largest.
    CHECK(Has(m, R"(berth_queue_flavor_used{queue="other",flavor="h100",resource="gpu"} 11)"));
  }
}

TEST_CASE("feeding and scraping at once", "[metrics]") {
  Metrics m(kBuild);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&m, t] {
        for (int i = 0; i < 200; ++i) {
          m.ObserveRequest(Verb::kBind, 200 + i % 3, 0.001);
          m.ReplaceQueues(std::vector<QueueRow>{{"q" + std::to_string(t), "gpu", 1, 1, {}}});
          m.ReplacePending(std::vector<PendingRow>{{"q0", "NeverFits", 1}});
        }
      });
    }
    for (int i = 0; i < 20; ++i) CHECK_FALSE(m.Serialize().empty());
  }
  CHECK(Has(m, R"(berth_request_duration_seconds_count{code="200",verb="bind"} 201)"));
}

}  // namespace
}  // namespace berth::server
