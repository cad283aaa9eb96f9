#include "cluster/queue_directory.h"

#include <string>
#include <vector>

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::MakeQueue;

const std::vector<config::Queue> kQueues{MakeQueue("default", {"*"}), MakeQueue("a", {"x", "y"}),
                                         MakeQueue("b", {"y", "z"}), MakeQueue("open", {"*"}),
                                         config::Queue{.name = "parent"}};

std::string Find(const std::string& ns, const std::string& held, const std::string& asked,
                 const std::vector<config::Queue>& queues = kQueues) {
  const auto found = QueueDirectory(queues).Find(ns, held, asked);
  return found ? queues[*found].name : "";
}

TEST_CASE("a pod that names no queue goes to the first that lists its namespace, or to default",
          "[unit][cluster]") {
  CHECK(Find("x", "", "") == "a");
  CHECK(Find("y", "", "") == "a");
  CHECK(Find("z", "", "") == "b");
  CHECK(Find("w", "", "") == "default");
  CHECK(Find("w", "", "", {MakeQueue("default", {"x"}), MakeQueue("open", {"*"})}) == "");
  CHECK(Find("w", "", "", {}) == "");
}

TEST_CASE("a pod that names a queue goes there or nowhere", "[unit][cluster]") {
  CHECK(Find("y", "", "b") == "b");
  CHECK(Find("w", "", "open") == "open");
  CHECK(Find("w", "", "b") == "");
  CHECK(Find("x", "", "parent") == "");  // no namespace may use it
  CHECK(Find("x", "", "c") == "");
}

TEST_CASE("a pod stays in the queue that its Binding names, as long as that admits it",
          "[unit][cluster]") {
  CHECK(Find("y", "b", "") == "b");
  CHECK(Find("y", "b", "a") == "b");
  CHECK(Find("x", "b", "") == "a");  // b does not list x any more
  CHECK(Find("x", "gone", "open") == "open");
  CHECK(Find("w", "b", "a") == "");
}

}  // namespace
}  // namespace berth::cluster
