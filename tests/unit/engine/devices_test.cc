// Device indices from the plan to the Binding, over restarts, and against forged annotations.
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeDgx;
using testing::MakePod;
using testing::Posting;
using testing::World;

constexpr const char* kDevices = "berth.dev/devices";

std::string Note(const std::string& indices) {
  return R"({"main":{"nvidia.com/gpu":[)" + indices + "]}}";
}

std::string NoteOf(const World& w, const std::string& pod) {
  const auto& annotations = w.pod(pod).meta.annotations;
  const auto it = annotations.find(kDevices);
  return it == annotations.end() ? "" : it->second;
}

TEST_CASE("two pods of four get a socket each", "[unit][engine]") {
  World w;
  w.Add(MakeDgx("n1"));
  w.Start();
  w.Add(MakePod("a").Gpu(4));
  w.Add(MakePod("b").Gpu(4));
  w.Schedule();
  CHECK(NoteOf(w, "a") == Note("0,1,2,3"));
  CHECK(NoteOf(w, "b") == Note("4,5,6,7"));
}

TEST_CASE("no component honours device indices: none are written", "[unit][engine]") {
  World w;
  w.Add(MakeDgx("n1", /*selects=*/false));
  w.Start();
  w.Add(MakePod("a").Gpu(4));
  w.Schedule();
  CHECK(w.BoundPods() == 1);
  CHECK(NoteOf(w, "a").empty());
}

TEST_CASE("a gang's members have devices of their own", "[unit][engine]") {
  World w;
  w.Add(MakeDgx("n1"));
  w.Start();
  for (const char* name : {"a", "b", "c", "d"}) w.Add(MakePod(name).Gpu(2).Gang("g", 4));
  w.Schedule();
  REQUIRE(w.BoundPods() == 4);
  std::set<std::string> notes;
  for (const char* name : {"a", "b", "c", "d"}) notes.insert(NoteOf(w, name));
  CHECK(notes == std::set<std::string>{Note("0,1"), Note("2,3"), Note("4,5"), Note("6,7")});
}

TEST_CASE("a new process knows which pod has which devices", "[unit][engine]") {
  World w;
  w.Add(MakeDgx("n1"));
  w.Start();
  w.Add(MakePod("a").Gpu(1));
  w.Add(MakePod("b").Gpu(4));
  w.Schedule();
  REQUIRE(NoteOf(w, "a") == Note("0"));
  REQUIRE(NoteOf(w, "b") == Note("4,5,6,7"));
  const std::string ledger = w.store().LedgerString();
  w.Restart();
  CHECK(w.store().LedgerString() == ledger);
  w.Add(MakePod("c").Gpu(3));
  w.Schedule();
  CHECK(NoteOf(w, "c") == Note("1,2,3"));
}

TEST_CASE("a forged annotation costs the node its indices and no pod a device", "[unit][engine]") {
  World w;
  w.Add(MakeDgx("n1"));
  w.Start();
  w.Add(MakePod("a").Gpu(4));
  w.Schedule();
  w.Add(MakePod("thief").Gpu(2).Scheduler("other").On("n1").Annotation(kDevices, Note("0,1")));
  w.Tick();
  CHECK(w.LogOf("node n1 kept=false").size() == 1);
  w.Add(MakePod("b").Gpu(2));
  w.Add(MakePod("c").Gpu(2));
  w.Schedule();
  CHECK(NoteOf(w, "b").empty());
  CHECK(w.Planned("c").empty());  // counts are the truth: 4 + 2 + 2 of 8
  CHECK(w.UsedGpus("n1") == 8);
  // As after a restart, so before it.
  const std::string ledger = w.store().LedgerString();
  w.Restart();
  CHECK(w.store().LedgerString() == ledger);
  // While b, bound without, lives, which devices it has is not known.
  w.Delete("thief");
  w.Schedule();
  CHECK(NoteOf(w, "c").empty());
  w.Delete("b");
  w.Delete("c");
  w.Add(MakePod("d").Gpu(4));
  w.Schedule();
  CHECK(NoteOf(w, "d") == Note("4,5,6,7"));
}

TEST_CASE("a Binding whose answer was lost keeps its devices", "[unit][engine]") {
  World w;
  w.Add(MakeDgx("n1"));
  w.Start();
  w.Add(MakePod("a").Gpu(4));
  w.SetPosting(Posting::kLosesAnswer);
  w.Schedule();
  w.SetPosting(Posting::kBinds);
  w.Add(MakePod("b").Gpu(4));
  w.Schedule();
  CHECK(NoteOf(w, "a") == Note("0,1,2,3"));
  CHECK(NoteOf(w, "b") == Note("4,5,6,7"));
}

TEST_CASE("in passthrough no devices are chosen", "[unit][engine]") {
  auto policy = testing::MakePolicy();
  policy.mode = config::Mode::kPassthrough;
  World w(policy);
  w.Add(MakeDgx("n1"));
  w.Start();
  w.Add(MakePod("a").Gpu(4));
  w.Bind("a", "n1");
  CHECK(NoteOf(w, "a").empty());
  CHECK(w.store().node(0).track == cluster::DeviceTrack::kCountOnly);
}

}  // namespace
}  // namespace berth::engine
