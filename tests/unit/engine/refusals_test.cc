#include "engine/refusals.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

namespace berth::engine {
namespace {

using cluster::PodShape;

struct RefusalsTest {
  /// Nodes to avoid for pods of `shape` of the workload.
  std::vector<cluster::NodeIndex> Avoided(const std::shared_ptr<const PodShape>& shape) {
    cluster::PodInfo pod;
    pod.shape = shape;
    const std::vector<const cluster::PodInfo*> pods{&pod};
    std::vector<cluster::NodeIndex> nodes;
    for (const policy::Avoid& avoid : refusals.Of(workload, pods)) nodes.push_back(avoid.node);
    return nodes;
  }

  cluster::Workload workload;
  std::shared_ptr<const PodShape> small = std::make_shared<PodShape>();
  std::shared_ptr<const PodShape> large = std::make_shared<PodShape>();
  Refusals refusals;
};

using Nodes = std::vector<cluster::NodeIndex>;

TEST_CASE("what kube-scheduler refused is the workload's alone, and ends", "[unit][engine]") {
  RefusalsTest t;
  t.refusals.Refused(t.workload, {.shape = t.small, .node = 3, .until = 100});
  CHECK(t.Avoided(t.small) == Nodes{3});
  cluster::Workload other;
  CHECK(t.refusals.Of(other, {}).empty());

  CHECK_FALSE(t.refusals.Expire(t.workload, 99));
  CHECK(t.refusals.Expire(t.workload, 100));
  CHECK(t.Avoided(t.small).empty());
}

TEST_CASE("what a kubelet rejected holds for the shape, whosever the pod", "[unit][engine]") {
  RefusalsTest t;
  t.refusals.Rejected(t.small, 3, 0);
  CHECK(t.Avoided(t.small) == Nodes{3});
  CHECK(t.Avoided(t.large).empty());
  CHECK(t.refusals.WasRejected(*t.small, 3));

  t.refusals.ExpireRejections(299'999);
  CHECK(t.refusals.WasRejected(*t.small, 3));
  t.refusals.ExpireRejections(300'000);
  CHECK_FALSE(t.refusals.WasRejected(*t.small, 3));
}

TEST_CASE("a node that rejects again is left alone for twice as long", "[unit][engine]") {
  RefusalsTest t;
  CHECK(t.refusals.Rejected(t.small, 3, 0).again == 5'000);
  CHECK(t.refusals.Rejected(t.small, 3, 1'000).again == 6'000);  // bound before the first one
  CHECK(t.refusals.Rejected(t.small, 3, 6'000).again == 16'000);
  CHECK(t.refusals.Rejected(t.small, 4, 6'000).again == 11'000);
  for (int i = 0; i < 10; ++i) t.refusals.Rejected(t.small, 3, 1'000'000 * (i + 1));
  CHECK(t.refusals.Rejected(t.small, 3, 20'000'000).again == 20'160'000);  // at most
}

TEST_CASE("a pod that came later and runs there clears the node", "[unit][engine]") {
  RefusalsTest t;
  t.refusals.Rejected(t.small, 3, 1'000);
  t.refusals.Succeeded(*t.small, 3, 1'000);
  t.refusals.Succeeded(*t.large, 3, 2'000);
  CHECK(t.refusals.WasRejected(*t.small, 3));
  t.refusals.Succeeded(*t.small, 3, 2'000);
  CHECK_FALSE(t.refusals.WasRejected(*t.small, 3));
}

TEST_CASE("a node that changed is another one", "[unit][engine]") {
  RefusalsTest t;
  for (const int node : {3, 4}) {
    t.refusals.Rejected(t.small, node, 0);
    t.refusals.Refused(t.workload, {.shape = t.small, .node = node, .until = 100});
  }
  t.refusals.ForgetNode(3);
  CHECK(t.Avoided(t.small) == Nodes{4, 4});
  t.refusals.ForgetWorkload(t.workload);
  CHECK(t.Avoided(t.small) == Nodes{4});
  t.refusals.Clear();
  CHECK(t.Avoided(t.small).empty());
}

TEST_CASE("of very many rejections the oldest is forgotten", "[unit][engine]") {
  RefusalsTest t;
  for (int node = 0; node < 1'025; ++node) t.refusals.Rejected(t.small, node, 0);
  CHECK_FALSE(t.refusals.WasRejected(*t.small, 0));
  CHECK(t.refusals.WasRejected(*t.small, 1));
}

}  // namespace
}  // namespace berth::engine
