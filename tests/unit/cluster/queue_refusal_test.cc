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

}  // namespace
}  // namespace berth::cluster
