#include "cluster/queue_refusal.h"

#include "cluster/store.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

std::string SentenceFor(const config::PolicyConfiguration& policy, const std::string& asked) {
  Store store(policy);
  auto pod = MakePod("p").Gpu(1).Ns("web");
  if (!asked.empty()) pod.Queue(asked);
  return Sentence(store.UpsertPod(pod)->refusal);
}

TEST_CASE("a refusal names the queues that would admit the pod", "[unit][cluster]") {
  const auto lab = MakeQueue("lab", {"lab"});
  const auto open = MakeQueue("open", {"*"});
  const auto web = MakeQueue("web-2", {"web"});
  CHECK(SentenceFor(MakePolicy({lab}), "") == "No queue admits pods of namespace web.");
  CHECK(SentenceFor(MakePolicy({lab}), "lab") ==
        "Queue lab does not admit pods of namespace web; no queue does.");
  CHECK(SentenceFor(MakePolicy({lab, open, web}), "lab") ==
        "Queue lab does not admit pods of namespace web; those that do: open, web-2.");
  CHECK(SentenceFor(MakePolicy({lab, open}), "") ==
        "No queue lists namespace web by name, and there is no queue default that admits it: name "
        "a queue with the label berth.dev/queue. Those that admit it: open.");
  std::vector<config::Queue> many{lab};
  for (int i = 1; i <= 7; ++i) many.push_back(MakeQueue("q" + std::to_string(i), {"*"}));
  CHECK(SentenceFor(MakePolicy(many), "lab").ends_with("q1, q2, q3, q4, q5 and 2 more."));
}

TEST_CASE("what else a queue looks at", "[unit][cluster]") {
  const config::Queue queue{.name = "a",
                            .classes = std::vector<std::string>{"training", "batch"},
                            .priority_classes = std::vector<std::string>{"low"},
                            .non_preemptible = false};
  const Work fits{.priority_class = "low", .workload_class = "batch"};
  CHECK(WorkRefusal(queue, fits).empty());
  Work work = fits;
  work.priority_class = "";
  CHECK(WorkRefusal(queue, work).empty());
  work.priority_class = "high";
  CHECK(WorkRefusal(queue, work) ==
        "Queue a does not admit the PriorityClass high; those that it admits: low.");
  work = fits;
  work.workload_class = "inference";
  CHECK(WorkRefusal(queue, work) ==
        "Queue a does not admit the class inference; those that it admits: training, batch.");
  work.workload_class = "";
  CHECK(WorkRefusal(queue, work) ==
        "Queue a admits only pods with the label berth.dev/class; classes that it admits: "
        "training, batch.");
  work = fits;
  work.non_preemptible = true;
  CHECK(WorkRefusal(queue, work) == "Queue a does not admit non-preemptible work.");
  const config::Queue closed{.name = "b", .priority_classes = std::vector<std::string>{}};
  CHECK(WorkRefusal(closed, {}).empty());
  CHECK(WorkRefusal(closed, {.priority_class = "low"}) ==
        "Queue b does not admit the PriorityClass low; those that it admits: none.");
  CHECK(WorkRefusal({.name = "c"}, {"x", "y", true}).empty());
}

}  // namespace
}  // namespace berth::cluster
