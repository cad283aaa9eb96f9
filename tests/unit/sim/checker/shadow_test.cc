// The second opinion on the ledger of large worlds.
#include "sim/checker/shadow.h"

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using cluster::Charge;
using testing::MakeNode;
using testing::MakePod;

/// A new version of an object at every change, as the API server has it.
class ShadowTest {
 public:
  explicit ShadowTest(cluster::StoreOptions options = {})
      : store(config::PolicyConfiguration(), options) {
    for (const char* name : {"n1", "n2"}) Put(MakeNode(name).Gpu(8));
  }

  void Put(kube::Node node) {
    node.meta.resource_version = std::to_string(++version_);
    store.UpsertNode(std::move(node));
  }
  void Put(kube::Pod pod) {
    pod.meta.resource_version = std::to_string(++version_);
    store.UpsertPod(std::move(pod));
  }
  void Charge(const std::string& pod, const std::string& node, cluster::Charge charge) {
    store.SetCharge(*store.FindPod("uid-" + pod), store.FindNode(node), charge);
  }
  bool Same() {
    store.Refresh();
    return shadow_.Difference(store).empty();
  }

  cluster::Store store;

 private:
  int version_ = 0;
  Shadow shadow_;
};

TEST_CASE("a ledger that follows its objects and plans has no difference", "[unit][sim]") {
  ShadowTest t;
  CHECK(t.Same());
  t.Put(MakePod("bound").Gpu(3).On("n1"));
  t.Put(MakePod("planned").Gpu(2));
  t.Charge("planned", "n2", Charge::kPlanned);
  CHECK(t.Same());
  t.Charge("planned", "n1", Charge::kBinding);
  CHECK(t.Same());
  t.Put(MakePod("planned").Gpu(2).On("n1"));
  t.store.DeletePod("uid-bound");
  CHECK(t.Same());
  t.store.DeleteNode("n1");
  CHECK(t.Same());
  config::PolicyConfiguration policy;
  policy.queues = {{.name = "a", .namespaces = std::vector<std::string>{"*"}}};
  t.store.SetPolicy(policy);
  CHECK(t.Same());
}

TEST_CASE("what no object or plan accounts for is a difference", "[unit][sim]") {
  ShadowTest t;
  t.Put(MakePod("p").Gpu(3).On("n1"));
  t.Put(MakePod("q").Gpu(1));
  t.Charge("q", "n2", Charge::kPlanned);
  REQUIRE(t.Same());
  SECTION("a bound pod whose room was given back") {
    t.store.Unreserve(*t.store.FindPod("uid-p"));
    CHECK_FALSE(t.Same());
  }
  SECTION("a bound pod that is charged elsewhere") {
    t.Charge("p", "n2", Charge::kBound);
    CHECK_FALSE(t.Same());
  }
  SECTION("until it is mended") {
    t.Charge("p", "n2", Charge::kBound);
    CHECK_FALSE(t.Same());
    t.Charge("p", "n1", Charge::kBound);
    CHECK(t.Same());
  }
}

TEST_CASE("with shares, which devices are free depends on history and is no difference",
          "[unit][sim]") {
  ShadowTest t({.shares = true});
  t.Put(MakePod("first").Gpu(1).On("n1"));
  t.Put(MakePod("second").Gpu(1).On("n1"));
  t.store.DeletePod("uid-first");
  CHECK(t.Same());
  t.store.Unreserve(*t.store.FindPod("uid-second"));
  CHECK_FALSE(t.Same());
}

}  // namespace
}  // namespace berth::sim
