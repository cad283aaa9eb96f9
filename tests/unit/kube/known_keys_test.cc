#include "kube/known_keys.h"

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

using Keys = std::vector<std::string>;

TEST_CASE("a list shows which objects are gone, in order", "[kube]") {
  KnownKeys keys;
  for (const char* key : {"c", "a", "b"}) keys.Add(key);
  keys.BeginReplace();
  keys.Add("b");
  CHECK(keys.EndReplace() == Keys{"a", "c"});
  CHECK_FALSE(keys.Remove("a"));
  CHECK(keys.Remove("b"));
  CHECK_FALSE(keys.Remove("b"));
}

TEST_CASE("a list that failed half-way has said nothing", "[kube]") {
  KnownKeys keys;
  keys.Add("a");
  keys.Add("b");
  keys.BeginReplace();
  keys.Add("a");
  keys.BeginReplace();
  keys.Add("b");
  CHECK(keys.EndReplace() == Keys{"a"});
}

TEST_CASE("an event during a list counts as seen", "[kube]") {
  KnownKeys keys;
  keys.BeginReplace();
  keys.Add("new");
  CHECK(keys.EndReplace().empty());
  keys.Add("later");
  keys.BeginReplace();
  CHECK(keys.EndReplace() == Keys{"later", "new"});
}

}  // namespace
}  // namespace berth::kube
