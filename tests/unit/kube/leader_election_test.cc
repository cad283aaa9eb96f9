#include "kube/leader_election.h"

#include <random>

#include "tests/unit/kube/election_bed.h"

namespace berth::kube {
namespace {

TEST_CASE("the first candidate takes a free Lease and keeps it", "[kube][election]") {
  Election e;
  const auto& a = e.Add("a");
  CHECK(e.RunUntilLed() == milliseconds(50));
  e.Add("b");
  e.Run(hours(1));
  CHECK(e.Leads(a));
  CHECK(e.server.Holder() == "a");
  CHECK(e.server.Transitions() == 1);
  // One write every 2 s, and reads by who waits only.
  CHECK(e.server.calls[RequestKind::kUpdate] == testing::Approx(1800).margin(60));
  CHECK(e.server.calls[RequestKind::kGet] < 1800);
}

TEST_CASE("a Lease that is not there may have been deleted under a leader", "[kube][election]") {
  Election e;
  e.server.Delete();
  const auto& a = e.Add("a");
  e.Run(seconds(14));
  CHECK(e.server.Holder() == "none");
  e.Run(seconds(2));
  CHECK(e.server.Holder() == "a");
  CHECK(e.Leader() == "nobody");  // the Lease may be gone before the others have read it
  e.Run(seconds(5));
  CHECK(e.Leads(a));
  CHECK(e.server.calls[RequestKind::kCreate] == 1);
  CHECK(e.server.Transitions() == 0);
}

TEST_CASE("who waits takes over when the record has stood still for its duration",
          "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.Run(seconds(1));
  const auto& b = e.Add("b");
  e.Run(seconds(60));
  SECTION("a leader that was killed") {
    a.stopped = true;
    const Duration gap = [&] {
      e.Run(seconds(10));  // its own deadline, which a dead process does not look at
      return seconds(10) + e.RunUntilLed();
    }();
    CHECK(gap >= seconds(13));  // 15 s from a change that is at most a period old
    CHECK(gap <= seconds(20));  // and was seen at most 4.4 s after it was made
  }
  SECTION("a leader whose writes do not get through stops by itself before that") {
    a.network = GENERATE(Network::kLost, Network::kDown);
    e.Run(seconds(8));
    CHECK(e.Leads(a));
    e.Run(seconds(2));
    CHECK(e.Leader() == "nobody");
    e.RunUntilLed();
  }
  SECTION("one that was stopped for a while wakes up as no leader") {
    a.stopped = true;
    e.Run(seconds(30));
    REQUIRE(e.Leads(b));
    a.stopped = false;
    CHECK_FALSE(e.Leads(a));  // before it has asked anybody
    e.Run(seconds(30));
  }
  CHECK(e.Leads(b));
  CHECK(e.server.Transitions() == 2);
  e.Run(seconds(60));
  CHECK(e.Leads(b));
}

TEST_CASE("a pause that ends in time costs nothing", "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.Add("b");
  e.RunUntilLed();
  a.stopped = true;
  e.Run(seconds(7));
  a.stopped = false;
  CHECK(e.Leads(a));
  e.Run(seconds(30));
  CHECK(e.Leads(a));
}

TEST_CASE("clocks of different machines are never compared", "[kube][election]") {
  const auto clock = GENERATE(hours(-900), hours(900));
  const Millis wall = GENERATE(-86'400'000LL * 365, 86'400'000LL * 365);
  Election e;
  auto& a = e.Add("a");
  e.Run(seconds(1));
  const auto& b = e.Add("b", clock, wall);
  e.Run(seconds(60));
  CHECK(e.Leads(a));
  a.stopped = true;
  e.Run(seconds(13));
  CHECK_FALSE(e.Leads(b));
  e.Run(seconds(8));
  CHECK(e.Leads(b));
  a.stopped = false;
  e.Run(seconds(60));
  CHECK(e.Leads(b));
}

TEST_CASE("a released Lease is taken at once by who is told, and soon by who is not",
          "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.Run(seconds(1));
  auto& b = e.Add("b");
  e.Run(seconds(30));
  a.election.Release(e.now(a));
  CHECK_FALSE(e.Leads(a));
  CHECK_FALSE(a.election.released());
  SECTION("told") {
    e.Run(milliseconds(50));
    CHECK(a.election.released());
    CHECK(e.server.Holder().empty());
    b.election.Poke(e.now(b));
    CHECK(e.RunUntilLed() == milliseconds(50));
  }
  SECTION("not told") { CHECK(e.RunUntilLed() <= seconds(5)); }
  CHECK(e.Leads(b));
  e.Run(seconds(60));
  CHECK(e.Leads(b));  // the first one never comes back
  CHECK(a.election.due() == TimePoint::max());
}

TEST_CASE("a release comes about whatever is under way", "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.Run(seconds(30));
  SECTION("a renewal whose answer is lost") {
    a.network = Network::kAnswersLost;
    e.Run(seconds(3));
    REQUIRE(a.answer);
    a.election.Release(e.now(a));
    a.answer_at = {};
    a.network = Network::kFine;
  }
  SECTION("a renewal that is answered after it") {
    auto request = a.election.Next(e.now(a) + seconds(3), 0, 0);
    REQUIRE(request);
    a.election.Release(e.now(a));
    a.answer = e.server.Serve(*request);
  }
  SECTION("somebody touched the Lease") {
    e.server.Edit(R"({"metadata":{"labels":{"x":"y"}}})");
    a.election.Release(e.now(a));
  }
  e.Run(seconds(1));
  CHECK(a.election.released());
  CHECK(e.server.Holder().empty());
}

TEST_CASE("a release ends also where there is nothing to release, or nobody hears it",
          "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  SECTION("not the leader") {
    a.network = Network::kDown;
    e.Run(seconds(1));
    a.election.Release(e.now(a));
    CHECK(a.election.released());
    a.network = Network::kFine;
    e.Run(seconds(60));
    CHECK(e.server.Holder().empty());
  }
  SECTION("the server is away") {
    e.Run(seconds(1));
    a.network = Network::kLost;
    a.election.Release(e.now(a));
    e.Run(seconds(10));
    CHECK(a.election.released());
    CHECK(e.server.Holder() == "a");  // it expires
  }
  SECTION("another one has it") {
    e.Run(seconds(1));
    e.server.Edit(R"({"spec":{"holderIdentity":"thief"}})");
    a.election.Release(e.now(a));
    e.Run(seconds(1));
    CHECK(a.election.released());
    CHECK(e.server.Holder() == "thief");
  }
}

TEST_CASE("a stolen Lease is noticed at the next renewal", "[kube][election]") {
  Election e;
  const auto& a = e.Add("a");
  e.RunUntilLed();
  e.Run(seconds(30));
  e.server.Edit(R"({"spec":{"holderIdentity":"thief","leaseDurationSeconds":40}})");
  e.Run(milliseconds(2100));
  CHECK_FALSE(e.Leads(a));
  CHECK(a.election.observed()->record.holder == "thief");
  e.Run(seconds(36));
  CHECK_FALSE(e.Leads(a));
  e.Run(seconds(5));  // as long as the record says, since it was seen
  CHECK(e.Leads(a));
  CHECK(e.server.Transitions() == 2);
}

TEST_CASE("a deleted Lease stays with its leader", "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.Run(seconds(1));
  const auto& b = e.Add("b");
  e.Run(seconds(30));
  e.server.Delete();
  SECTION("that is well") {
    e.Run(seconds(60));
    CHECK(e.Leads(a));
    CHECK(e.server.Holder() == "a");
  }
  SECTION("and if that is dead, is created after the time that it had") {
    a.stopped = true;
    e.Run(seconds(10));
    CHECK(e.server.Holder() == "none");
    e.RunUntilLed();
    CHECK(e.Leads(b));
  }
}

TEST_CASE("time without answers is not time without a Lease", "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.Run(seconds(1));
  auto& b = e.Add("b");
  e.Run(seconds(30));
  e.server.Delete();
  e.Run(seconds(3));  // b has found none, a has made it again
  REQUIRE(e.server.Holder() == "a");
  b.network = Network::kDown;
  e.Run(seconds(8));
  e.server.Delete();
  a.network = Network::kDown;  // it leads for up to 10 s more, without the Lease
  b.network = Network::kFine;
  e.Run(seconds(8));
  CHECK_FALSE(e.Leads(b));
  e.Run(seconds(20));
  CHECK(e.Leads(b));
}

/// Between two reads of one candidate it may be made and deleted by turns.
TEST_CASE("a Lease that is deleted again and again never has two leaders", "[kube][election]") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    Election e;
    e.SetRandom([&] { return below(1000) / 1000.0; });
    std::vector<Election::Candidate*> all;
    for (const char* name : {"a", "b", "c"}) all.push_back(&e.Add(name, seconds(below(10'000))));
    CAPTURE(seed);
    for (int i = 0; i < 60; ++i) {
      if (below(2) == 0) e.server.Delete();
      if (below(4) == 0)
        all[static_cast<std::size_t>(below(3))]->network = static_cast<Network>(below(4));
      e.Run(milliseconds(below(4'000)));
    }
    for (auto* c : all) c->network = Network::kFine;
    CHECK(e.RunUntilLed() <= seconds(36));
  }
}

TEST_CASE("a Lease that suddenly names a candidate makes it no leader", "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.Run(seconds(1));
  const auto& b = e.Add("b");
  e.Run(seconds(30));
  a.network = Network::kLost;  // it leads for up to 10 s more
  e.server.Edit(R"({"spec":{"holderIdentity":"b"}})");
  e.Run(seconds(5));
  CHECK(e.Leads(a));
  e.Run(seconds(20));
  CHECK(e.Leads(b));
}

TEST_CASE("edits beside the record are no sign of life", "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.Run(seconds(1));
  const auto& b = e.Add("b");
  e.Run(seconds(30));
  a.stopped = true;
  for (int i = 0; i < 25; ++i) {
    e.Run(seconds(1));
    e.server.Edit((R"({"metadata":{"labels":{"n":")" + std::to_string(i) + R"("}}})").c_str());
  }
  CHECK(e.Leads(b));
}

TEST_CASE("a leader goes on after an edit that did not concern it", "[kube][election]") {
  Election e;
  const auto& a = e.Add("a");
  e.RunUntilLed();
  for (int i = 0; i < 20; ++i) {
    e.server.Edit((R"({"metadata":{"labels":{"n":")" + std::to_string(i) + R"("}}})").c_str());
    e.Run(milliseconds(1300));
    CHECK(e.Leads(a));
  }
  CHECK(e.server.Transitions() == 1);
}

TEST_CASE("a renewal that took effect without an answer does not count", "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.RunUntilLed();
  a.network = Network::kAnswersLost;
  e.Run(seconds(10));
  CHECK(e.server.Holder() == "a");
  CHECK_FALSE(e.Leads(a));
}

TEST_CASE("a Lease that was taken without an answer is found to be ours", "[kube][election]") {
  LeaseServer server;
  LeaderElection election({.identity = "a"});
  TimePoint now{hours(1)};
  const auto next = [&] {
    now = std::max(now, election.due());
    return *election.Next(now, now.time_since_epoch().count() / 1'000'000, 0);
  };
  election.Answer(server.Serve(next()), now);
  server.Serve(next());
  election.Answer({.kind = AnswerKind::kFailed, .error = "reset"}, now);
  CHECK_FALSE(election.Leads(now));
  CHECK(server.Holder() == "a");
  election.Answer(server.Serve(next()), now);
  CHECK_FALSE(election.Leads(now));  // seen is not enough: it may be about to expire elsewhere
  election.Answer(server.Serve(next()), now);
  CHECK(election.Leads(now));
  CHECK(server.Transitions() == 1);
}

TEST_CASE("a leader that lost its term by its own clock waits as another would",
          "[kube][election]") {
  Election e;
  auto& a = e.Add("a");
  e.RunUntilLed();
  e.Run(seconds(30));
  a.network = Network::kDown;
  e.Run(seconds(10));
  REQUIRE(e.Leader() == "nobody");
  a.network = Network::kFine;
  // Its last Binding may still be on its way: 5 s more, as everybody else would give it.
  e.Run(seconds(2));
  CHECK(e.Leader() == "nobody");
  e.Run(seconds(4));
  CHECK(e.Leads(a));
}

TEST_CASE("nonsense in the Lease is said, looked at again, and never led by", "[kube][election]") {
  const auto* nonsense = GENERATE(R"({"spec":{"leaseDurationSeconds":0}})",
                                  R"({"spec":{"leaseDurationSeconds":2147483647}})",
                                  R"({"spec":{"holderIdentity":["a"]}})", R"({"spec":"mine"})");
  Election e;
  const auto& a = e.Add("a");
  e.RunUntilLed();
  e.Run(seconds(10));
  e.server.Edit(nonsense);
  e.Run(seconds(12));
  CHECK_FALSE(e.Leads(a));
  CHECK_THAT(a.election.error(), Catch::StartsWith("Lease: spec"));
  e.Run(seconds(100));
  CHECK_FALSE(e.Leads(a));
  e.server.Delete();  // what an administrator does
  e.Run(seconds(25));
  CHECK(e.Leads(a));
  CHECK(a.election.error().empty());
}

TEST_CASE("a request's time-out never outlasts the term", "[kube][election]") {
  LeaderElection election({.identity = "a"});
  TimePoint now{hours(1)};
  const auto ask = [&] { return election.Next(now, 0, 0); };
  auto request = ask();
  REQUIRE(request);
  CHECK(request->kind == RequestKind::kGet);
  CHECK(request->timeout == seconds(5));
  CHECK_FALSE(ask());  // one at a time
  election.Answer({.kind = AnswerKind::kLease, .lease = {.resource_version = "0"}}, now);
  request = ask();
  CHECK(request->kind == RequestKind::kUpdate);
  const TimePoint sent = now;
  now += seconds(4);
  election.Answer({.kind = AnswerKind::kLease,
                   .lease = {.record = request->record, .resource_version = "1", .object = "{}"}},
                  now);
  CHECK(election.leading_until() == sent + seconds(10));
  now = sent + seconds(7);
  request = ask();
  CHECK(request->kind == RequestKind::kUpdate);
  CHECK(request->timeout == seconds(3));
  now = sent + seconds(10);
  CHECK_FALSE(election.Leads(now));  // while the request hangs
  CHECK(election.due() == TimePoint::max());
}

TEST_CASE("candidates that collide sort it out", "[kube][election]") {
  Election e;
  for (const char* name : {"a", "b", "c", "d"}) e.Add(name);
  CHECK(e.RunUntilLed() <= seconds(1));
  e.Run(seconds(60));
  CHECK(e.Leader() != "nobody");
}

/// Whatever fails, no two lead at once (checked at every step); when nothing fails any more,
/// somebody leads soon.
TEST_CASE("bad days of three candidates", "[kube][election]") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    Election e;
    e.SetRandom([&] { return below(1000) / 1000.0; });
    std::vector<Election::Candidate*> all;
    for (const char* name : {"a", "b", "c"}) {
      all.push_back(&e.Add(name, seconds(below(10'000)), below(1'000'000)));
    }
    for (int i = 0; i < 40; ++i) {
      auto& c = *all[static_cast<std::size_t>(below(3))];
      switch (below(6)) {
        case 0:
          c.stopped = !c.stopped;
          break;
        case 1:
          e.server.Delete();
          break;
        default:
          c.network = static_cast<Network>(below(4));
      }
      e.Run(milliseconds(below(20'000)));
    }
    for (auto* c : all) {
      c->stopped = false;
      c->network = Network::kFine;
    }
    CAPTURE(seed);
    CHECK(e.RunUntilLed() <= seconds(30));
  }
}

}  // namespace
}  // namespace berth::kube
