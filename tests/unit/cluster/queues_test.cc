// Which queue a pod belongs to.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/store.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

std::string QueueOf(const Store& store, const std::string& uid) {
  const PodInfo* pod = store.FindPod(uid);
  if (pod->queue == kNoQueue) return "";
  return store.queue(pod->queue).config.name;
}

struct Row {
  const char* what;
  const char* label;  ///< Empty: none.
  const char* ns;
  const char* queue;  ///< Empty: refused.
  ReasonId reason = ReasonId::kNone;
};

config::Queue Parent(const std::string& name) { return {.name = name}; }

TEST_CASE("queue resolution", "[unit][cluster]") {
  // In this order: `all` admits everyone, but only by label or as `default` would.
  const auto policy =
      MakePolicy({Parent("science"), MakeQueue("all", {"*"}),
                  MakeQueue("research", {"lab", "lab2"}), MakeQueue("research2", {"lab"}),
                  MakeQueue("closed", {"other"}), MakeQueue("default", {"*"})});
  const std::vector<Row> rows = {
      {"no label: the first that lists the namespace", "", "lab", "research"},
      {"no label: the first in order", "", "lab2", "research"},
      {"no label, not listed: default, not the first with *", "", "web", "default"},
      {"label", "research2", "lab", "research2"},
      {"label of a queue for all", "all", "web", "all"},
      {"label of a queue for others", "closed", "lab", "", ReasonId::kQueueNotAllowed},
      {"label of a parent: nobody directly", "science", "lab", "", ReasonId::kQueueNotAllowed},
      {"unknown label", "nope", "lab", "", ReasonId::kUnknownQueue},
      {"names are exact", "Research", "lab", "", ReasonId::kUnknownQueue},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    Store store(policy);
    auto pod = MakePod("p").Gpu(1).Ns(row.ns);
    if (*row.label != '\0') pod.Queue(row.label);
    const PodInfo* info = store.UpsertPod(pod);
    REQUIRE(info != nullptr);
    CHECK(QueueOf(store, "uid-p") == row.queue);
    CHECK(info->refusal.reason == row.reason);
    store.Refresh();
    CHECK(info->workload->members.size() == (row.reason == ReasonId::kNone ? 1U : 0U));
    CHECK(info->workload->faulty.size() == (row.reason == ReasonId::kNone ? 0U : 1U));
  }
}

TEST_CASE("without default, what no queue admits is refused", "[unit][cluster]") {
  Store store(MakePolicy({MakeQueue("research", {"lab"})}));
  const PodInfo* pod = store.UpsertPod(MakePod("p").Gpu(1).Ns("web"));
  CHECK(pod->refusal.reason == ReasonId::kQueueNotAllowed);
  CHECK(pod->queue == kNoQueue);
}

TEST_CASE("default may be reserved for some", "[unit][cluster]") {
  Store store(MakePolicy({MakeQueue("default", {"lab"})}));
  CHECK(store.UpsertPod(MakePod("a").Gpu(1).Ns("lab"))->refusal.reason == ReasonId::kNone);
  CHECK(store.UpsertPod(MakePod("b").Gpu(1).Ns("web"))->refusal.reason ==
        ReasonId::kQueueNotAllowed);
}

TEST_CASE("the built-in policy has one queue for all", "[unit][cluster]") {
  Store store(MakePolicy());
  store.UpsertPod(MakePod("p").Gpu(1).Ns("anything"));
  CHECK(QueueOf(store, "uid-p") == "default");
}

TEST_CASE("a bound pod stays where it was charged", "[unit][cluster]") {
  const auto policy = MakePolicy(
      {MakeQueue("a", {"default"}), MakeQueue("b", {"default"}), MakeQueue("alien", {"other"})});
  Store store(policy);
  store.UpsertNode(MakeNode("n1").Gpu(8));
  SECTION("its claim wins over its label") {
    store.UpsertPod(MakePod("p").Gpu(1).On("n1").Queue("a").Claim("x", "n1", "b"));
    CHECK(QueueOf(store, "uid-p") == "b");
  }
  SECTION("a claim on a queue that its namespace may not use is a lie") {
    store.UpsertPod(MakePod("p").Gpu(1).On("n1").Queue("a").Claim("x", "n1", "alien"));
    CHECK(QueueOf(store, "uid-p") == "a");
  }
  SECTION("a claim on a queue that does not exist is ignored") {
    store.UpsertPod(MakePod("p").Gpu(1).On("n1").Queue("b").Claim("x", "n1", "gone"));
    CHECK(QueueOf(store, "uid-p") == "b");
  }
  SECTION("a claim on another node is not of its Binding") {
    store.UpsertPod(MakePod("p").Gpu(1).On("n1").Queue("a").Claim("x", "n2", "b"));
    CHECK(QueueOf(store, "uid-p") == "a");
  }
  SECTION("an unbound pod's claim says nothing") {
    store.UpsertPod(MakePod("p").Gpu(1).Queue("a").Claim("x", "n1", "b"));
    CHECK(QueueOf(store, "uid-p") == "a");
  }
  SECTION("a label edit after binding changes nothing") {
    store.UpsertPod(MakePod("p").Gpu(1).On("n1").Queue("a"));
    store.UpsertPod(MakePod("p").Gpu(1).On("n1").Queue("b"));
    CHECK(QueueOf(store, "uid-p") == "a");
    CHECK(store.queue(0).used[store.device_ids().front()] == 1000);
    CHECK(store.queue(1).used[store.device_ids().front()] == 0);
  }
}

config::Queue Under(const char* parent, config::Queue queue) {
  queue.parent = parent;
  return queue;
}

/// `org` above `science` above `a`; `b` is directly in `org`; `lone` is in a plain group.
config::PolicyConfiguration Tree() {
  return MakePolicy({Under("science", MakeQueue("a", {"*"})), Under("org", MakeQueue("b", {"*"})),
                     Under("group", MakeQueue("lone", {"*"})),
                     Under("org", MakeQueue("science", {"*"})), Parent("org")});
}

struct TreeTest {
  TreeTest() {
    store.UpsertNode(MakeNode("n").Gpu(16));
    int gpus = 1;
    for (const char* queue : {"a", "b", "lone", "science"}) {
      store.UpsertPod(MakePod(queue).Gpu(gpus).On("n").Queue(queue));
      gpus *= 2;
    }
  }
  /// What is charged to each queue of the policy, in its order.
  std::vector<std::int64_t> Used() const {
    std::vector<std::int64_t> used;
    for (const QueueId id : store.queues()) {
      used.push_back(store.queue(id).used[store.device_ids().front()] / 1000);
    }
    return used;
  }
  std::vector<std::string> PathOf(const char* queue) const {
    std::vector<std::string> names;
    for (const QueueId id : store.queue(store.FindQueue(queue)).path) {
      names.push_back(store.queue(id).config.name);
    }
    return names;
  }
  Store store{Tree()};
};

using Names = std::vector<std::string>;
using Uses = std::vector<std::int64_t>;

TEST_CASE("use is charged to each queue on the path", "[unit][cluster]") {
  TreeTest t;
  CHECK(t.PathOf("a") == Names{"a", "science", "org"});
  CHECK(t.PathOf("lone") == Names{"lone"});  // a plain group has no amounts
  CHECK(t.Used() == Uses{1, 2, 4, 1 + 8, 1 + 2 + 8});
  t.store.DeletePod("uid-science");
  CHECK(t.Used() == Uses{1, 2, 4, 1, 1 + 2});
  std::set<QueueId> news = t.store.TakeQueueNews();
  CHECK(news == std::set{t.store.FindQueue("science"), t.store.FindQueue("org")});
}

TEST_CASE("an edit of the tree moves the use", "[unit][cluster]") {
  TreeTest t;
  config::PolicyConfiguration policy = Tree();
  SECTION("to another parent: no pod is read again") {
    policy.queues[0].parent = "org";
    policy.queues[2].parent = "science";
    CHECK_FALSE(t.store.SetPolicy(policy));
    CHECK(t.Used() == Uses{1, 2, 4, 4 + 8, 1 + 2 + 4 + 8});
  }
  SECTION("upside down") {
    policy.queues[4].parent = "science";
    policy.queues[3].parent = "a";
    policy.queues[0].parent = "";
    t.store.SetPolicy(policy);
    CHECK(t.PathOf("b") == Names{"b", "org", "science", "a"});
    CHECK(t.Used() == Uses{1 + 2 + 8, 2, 4, 2 + 8, 2});
  }
  SECTION("a queue in the middle goes, and its pods with it to another queue") {
    policy.queues.erase(policy.queues.begin() + 3);
    policy.queues.push_back(MakeQueue("default", {"*"}));
    t.store.SetPolicy(policy);
    CHECK(t.PathOf("a") == Names{"a"});  // science is a plain group now
    // The pod of science asks for a queue that is gone: it is charged to none.
    CHECK(t.Used() == Uses{1, 2, 4, 2, 0});
  }
  const Uses before = t.Used();
  Store fresh(t.store.policy());
  fresh.UpsertNode(MakeNode("n").Gpu(16));
  for (const auto& [uid, pod] : t.store.pods()) fresh.UpsertPod(pod.object);
  CHECK(fresh.LedgerString() == t.store.LedgerString());
}

TEST_CASE("a queue is held by the nearest one on its path that is", "[unit][cluster]") {
  config::PolicyConfiguration policy = Tree();
  policy.queues[3].hold = config::Hold::kHold;
  Store store(policy);
  const auto held_by = [&](const char* queue) {
    return store.queue(store.FindQueue(queue)).held_by;
  };
  CHECK(held_by("a") == store.FindQueue("science"));
  CHECK(held_by("science") == store.FindQueue("science"));
  CHECK(held_by("b") == kNoQueue);
  policy.queues[0].hold = config::Hold::kHold;
  policy.queues[3].hold = config::Hold::kNone;
  store.SetPolicy(policy);
  CHECK(held_by("a") == store.FindQueue("a"));
  CHECK(held_by("science") == kNoQueue);
}

TEST_CASE("with borrowing only limits are caps, and what is not lent is kept", "[unit][cluster]") {
  config::Queue queue = MakeQueue("q", {"*"}, /*limit_gpus=*/-1, /*quota_gpus=*/16);
  queue.lending_limit[testing::kGpu] = 12'000;
  config::PolicyConfiguration policy = MakePolicy({queue});
  Store store(policy);
  CHECK(store.queue(0).caps.size() == 1);
  CHECK(store.keepers().empty());
  policy.borrowing = true;
  store.SetPolicy(policy);
  CHECK(store.queue(0).caps.empty());
  REQUIRE(store.keepers() == std::vector<QueueId>{0});
  CHECK(store.queue(0).kept ==
        std::vector<std::pair<ResourceId, std::int64_t>>{{store.device_ids().front(), 4'000}});
}

TEST_CASE("free devices are those of nodes that take pods", "[unit][cluster]") {
  Store store(MakePolicy({MakeQueue("q", {"*"})}));
  const auto free = [&] { return store.free_devices()[store.device_ids().front()] / 1000; };
  const auto total = [&] { return store.total_devices()[store.device_ids().front()] / 1000; };
  store.UpsertNode(MakeNode("a").Gpu(8));
  store.UpsertNode(MakeNode("b").Gpu(4));
  CHECK(free() == 12);
  store.UpsertPod(MakePod("p").Gpu(3).On("a").Queue("q"));
  CHECK(free() == 9);
  store.UpsertNode(MakeNode("b").Gpu(4).Cordoned());
  CHECK(free() == 5);
  CHECK(total() == 12);
  store.UpsertPod(MakePod("more").Gpu(7).On("a").Queue("q"));  // overfull: nothing is free
  CHECK(free() == 0);
  store.DeletePod("uid-more");
  store.DeleteNode("a");
  CHECK(free() == 0);
  CHECK(total() == 4);
  store.UpsertNode(MakeNode("b").Gpu(4));
  CHECK(free() == 4);
}

TEST_CASE("caps: the limit, else the quota, per resource", "[unit][cluster]") {
  config::Queue queue = MakeQueue("q", {"*"}, /*limit_gpus=*/32, /*quota_gpus=*/16);
  queue.quota["cpu"] = 5000;
  Store store(MakePolicy({queue}));
  std::map<std::string, std::int64_t> caps;
  for (const auto& [id, cap] : store.queue(0).caps) {
    caps[store.resources().Name(id)] = cap;
  }
  CHECK(caps == std::map<std::string, std::int64_t>{{"cpu", 5000}, {"nvidia.com/gpu", 32'000}});
}

TEST_CASE("whether a pod of a lower priority holds room", "[unit][cluster]") {
  Store store(MakePolicy({MakeQueue("q", {"*"}), MakeQueue("other", {"*"})}));
  store.UpsertNode(MakeNode("n").Gpu(8));
  const auto pod = [](int priority) {
    return MakePod("p").Gpu(1).Queue("q").Priority(priority).On("n");
  };
  store.UpsertPod(MakePod("waits").Gpu(1).Queue("q").Priority(-5));
  CHECK_FALSE(store.HoldsBelow(0, 0));
  store.UpsertPod(pod(3));
  CHECK(store.HoldsBelow(0, 4));
  CHECK_FALSE(store.HoldsBelow(0, 3));
  CHECK_FALSE(store.HoldsBelow(1, 4));  // priorities count inside a queue
  store.UpsertPod(pod(1));
  CHECK(store.HoldsBelow(0, 2));
  store.UpsertPod(MakePod("refused").Gpu(1).Queue("unknown").Priority(-1).On("n"));
  CHECK(store.HoldsBelow(1, 0));  // who is in no queue is compared with all
  store.DeletePod("uid-refused");
  store.DeletePod("uid-p");
  CHECK_FALSE(store.HoldsBelow(0, 1000));
  CHECK_FALSE(store.HoldsBelow(1, 1000));
}

}  // namespace
}  // namespace berth::cluster
