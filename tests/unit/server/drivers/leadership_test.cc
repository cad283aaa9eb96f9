// A replica against a fake API server, in real time with short terms. What an election does in
// which case is tested in virtual time (unit/kube/leader_election_test.cc).
#include "server/drivers/leadership.h"

#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/builders.h"
#include "tests/support/fake_api_server.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Eventually;
using testing::FakeApiServer;
using testing::FakeEnd;
using testing::FakeReply;
using testing::FakeRequest;
using testing::MakePod;

/// The Lease, and the pods of namespace `sys`.
class Cluster {
 public:
  Cluster() {
    lease_["metadata"] = {{"name", "berth"}, {"resourceVersion", "1"}};
    server.Handle([this](const FakeRequest& request) { return Answer(request); });
  }

  std::string Holder() const {
    const std::scoped_lock lock(mutex_);
    return lease_.contains("spec") ? lease_["spec"].value("holderIdentity", "") : "";
  }
  void Take(const std::string& holder, int for_seconds) {
    const std::scoped_lock lock(mutex_);
    lease_["spec"]["holderIdentity"] = holder;
    lease_["spec"]["leaseDurationSeconds"] = for_seconds;
    Touch();
  }
  /// Whether writes of the Lease hang.
  std::atomic<bool> hang = false;
  /// The status that patches of pods get.
  std::atomic<int> patch_status = 200;
  /// Patches of pods so far: `a {"labels":...}`.
  std::vector<std::string> Patches() const {
    const std::scoped_lock lock(mutex_);
    return patches_;
  }
  std::function<void(const std::string& pod, const json& metadata)> on_patch;

 private:
  void Touch() { lease_["metadata"]["resourceVersion"] = std::to_string(++version_); }

  FakeReply Answer(const FakeRequest& request) {
    if (request.method == "PATCH") return Patch(request);
    const std::scoped_lock lock(mutex_);
    if (request.method == "GET") return FakeReply::Json(lease_.dump());
    if (hang) return FakeReply::Nothing(FakeEnd::kHold);
    const auto fresh = json::parse(request.body);
    if (fresh["metadata"]["resourceVersion"] != lease_["metadata"]["resourceVersion"]) {
      return FakeReply::Status(409, "Conflict");
    }
    lease_ = fresh;
    Touch();
    return FakeReply::Json(lease_.dump());
  }

  FakeReply Patch(const FakeRequest& request) {
    const std::string pod = request.path.substr(request.path.rfind('/') + 1);
    const json metadata = json::parse(request.body)["metadata"];
    {
      const std::scoped_lock lock(mutex_);
      patches_.push_back(pod + " " + metadata["labels"].dump());
    }
    if (patch_status == 200 && on_patch) on_patch(pod, metadata);
    return FakeReply::Json("{}", patch_status);
  }

  mutable std::mutex mutex_;
  json lease_;
  int version_ = 1;
  std::vector<std::string> patches_;

 public:
  FakeApiServer server;  ///< Last: it answers from the members above until it is gone.
};

/// One replica, `berth-0`, unless it is given no pod.
struct Replica {
  explicit Replica(bool in_pod = true, seconds lease = seconds(1)) {
    kube::ClientConfig config;
    config.server = cluster.server.Url();
    client = *kube::RestClient::Create(config);
    LeadershipOptions options{.lease_ns = "sys",
                              .election = {.identity = "me",
                                           .lease_duration = lease,
                                           .renew_deadline = milliseconds(600),
                                           .retry_period = milliseconds(50)}};
    if (in_pod) {
      options.pod_ns = "sys";
      options.pod_name = "berth-0";
    }
    leadership.emplace(std::move(options), *client, tenure, logger,
                       Leadership::Duties{.lead = [this] { ++led; },
                                          .follow = [this] { ++followed; },
                                          .fit = [this] { return ++asked_fit, fit.load(); }});
    cluster.on_patch = [this](const std::string& pod, const json& metadata) {
      if (echo) Show(pod, metadata);
    };
  }

  /// What the informer would say after a patch.
  void Show(const std::string& pod, const json& metadata) {
    auto builder = MakePod(pod).Ns("sys");
    if (metadata["labels"]["berth.dev/leader"] == "true") builder.Label(host::kLeaderLabel, "true");
    if (metadata.contains("annotations")) {
      builder.Annotation(host::kLeadingAnnotation,
                         metadata["annotations"][host::kLeadingAnnotation].get<std::string>());
    }
    leadership->See(builder);
  }
  bool Says(const std::string& part) const {
    return leadership->StatusJson().find(part) != std::string::npos;
  }
  bool Patched(const std::string& patch) const {
    const auto patches = cluster.Patches();
    return std::ranges::find(patches, patch) != patches.end();
  }

  std::atomic<int> led = 0;
  std::atomic<int> followed = 0;
  std::atomic<bool> echo = true;
  std::atomic<bool> fit = true;
  std::atomic<int> asked_fit = 0;
  Cluster cluster;
  Tenure tenure;
  std::string own_log;
  std::string* log = &own_log;  ///< Written by the logger's thread.
  Logger logger{LogFormat::kText, 0, [this](std::string_view line) { *log += line; }};
  std::unique_ptr<kube::RestClient> client;
  std::optional<Leadership> leadership;
};

const std::string kOn = R"({"berth.dev/leader":"true"})";
const std::string kOff = R"({"berth.dev/leader":null})";

TEST_CASE("nothing is permitted before the Lease is won", "[leadership]") {
  Replica r;
  CHECK_FALSE(r.tenure.Holds());
  r.cluster.Take("another", 60);
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.Says(R"("holder":"another")"); }));
  CHECK(r.Says(R"("leading":false)"));
}

TEST_CASE("leadership is taken over when the informer has caught up", "[leadership]") {
  Replica r;
  r.echo = false;
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.Patched("berth-0 " + kOn); }));
  CHECK(r.cluster.Holder() == "me");
  CHECK(r.led == 0);
  const auto requests = r.cluster.server.Requests();
  const auto patch = std::ranges::find(requests, "PATCH", &FakeRequest::method);
  r.Show("berth-0", json::parse(patch->body)["metadata"]);
  REQUIRE(Eventually([&] { return r.Says(R"("leading":true)"); }));
  CHECK(r.led == 1);
  CHECK(r.tenure.Holds());
}

TEST_CASE("a write of the term before holds up the next", "[leadership]") {
  Replica r(/*in_pod=*/false);
  r.tenure.Begin(BootClock() + seconds(60));
  std::optional<Tenure::Permit> write = r.tenure.Enter(seconds(8));
  r.tenure.End();
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.tenure.Holds(); }));
  CHECK(r.led == 0);
  SECTION("soon over") {}
  SECTION("for longer than a term without a renewal") {
    const auto before = r.cluster.server.Requests().size();
    REQUIRE(Eventually([&] { return r.cluster.server.Requests().size() > before + 40; }));
    CHECK(r.led == 0);
  }
  write.reset();
  CHECK(Eventually([&] { return r.led == 1; }));
}

TEST_CASE("a leader that is not fit to lead lets its term end, and another may take the Lease",
          "[leadership][bug]") {
  Replica r;
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.led == 1; }));
  r.fit = false;
  CHECK(Eventually([&] { return !r.tenure.Holds() && r.followed == 1; }));
  r.cluster.Take("another", 1);
  REQUIRE(Eventually([&] { return r.cluster.Holder() == "another"; }));
  CHECK(r.led == 1);
  r.fit = true;
  CHECK(Eventually([&] { return r.led == 2; }));
  CHECK(r.cluster.Holder() == "me");
}

TEST_CASE("who is not fit to lead does not ask for the Lease", "[leadership]") {
  Replica r;
  r.fit = false;
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.asked_fit > 1; }));
  CHECK(r.cluster.server.Requests().empty());
  r.fit = true;
  CHECK(Eventually([&] { return r.led == 1; }));
}

TEST_CASE("who cannot label its pod leads all the same, and says so", "[leadership]") {
  std::string log;
  {
    Replica r;
    r.log = &log;
    r.cluster.patch_status = GENERATE(403, 404);
    r.leadership->Start();
    CHECK(Eventually([&] { return r.led == 1; }));
  }  // The logger has written everything.
  CHECK(log.find("the leader label could not be added to this replica's pod") != std::string::npos);
}

TEST_CASE("a stolen Lease, or renewals that hang, end the term; another one begins later",
          "[leadership]") {
  Replica r;
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.led == 1; }));
  const bool stolen = GENERATE(true, false);
  if (stolen) {
    r.cluster.Take("thief", 1);
  } else {
    r.cluster.hang = true;
  }
  REQUIRE(Eventually([&] { return r.followed == 1; }));
  CHECK(Eventually([&] { return r.Patched("berth-0 " + kOff); }));
  r.cluster.hang = false;
  REQUIRE(Eventually([&] { return r.led == 2; }));
  CHECK(r.followed == 1);
  CHECK(r.cluster.Holder() == "me");
}

TEST_CASE("a leader takes the label off other pods, and puts back its own", "[leadership]") {
  Replica r;
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.led == 1; }));
  r.leadership->See(MakePod("berth-1").Ns("sys").Label(host::kLeaderLabel, "true"));
  CHECK(Eventually([&] { return r.Patched("berth-1 " + kOff); }));
  const auto before = r.cluster.Patches().size();
  r.leadership->See(MakePod("berth-0").Ns("sys"));
  CHECK(Eventually([&] { return r.cluster.Patches().size() > before; }));
  CHECK(r.cluster.Patches().back() == "berth-0 " + kOn);
}

TEST_CASE("in good order: term, then Lease, then label", "[leadership]") {
  Replica r;
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.led == 1; }));
  r.leadership->Leave();
  CHECK_FALSE(r.tenure.Holds());
  CHECK(r.cluster.Holder() == "me");
  r.leadership->ReleaseLease();
  CHECK(r.cluster.Holder().empty());
  CHECK(r.cluster.Patches().back() == "berth-0 " + kOff);
  CHECK(r.followed == 0);  // its owner ends everything by itself
}

// Followers said so too.
TEST_CASE("only who holds the Lease says that it is released", "[leadership][bug]") {
  const bool leads = GENERATE(true, false);
  std::string log;
  {
    Replica r(/*in_pod=*/false);
    r.log = &log;
    if (!leads) r.cluster.Take("other", 60);
    r.leadership->Start();
    REQUIRE(Eventually([&] { return leads ? r.led == 1 : r.Says("\"holder\":\"other\""); }));
    r.leadership->Leave();
    r.leadership->ReleaseLease();
    CHECK(r.cluster.Holder() == (leads ? "" : "other"));
  }  // The logger has written everything.
  CHECK(log.find("leader changed") != std::string::npos);
  CHECK((log.find("Lease released") != std::string::npos) == leads);
}

TEST_CASE("a Lease is not given away while a write is under way", "[leadership]") {
  Replica r(/*in_pod=*/false);
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.led == 1; }));
  auto write = r.tenure.Enter(seconds(8));
  r.leadership->Leave();
  r.leadership->ReleaseLease();
  CHECK(r.cluster.Holder() == "me");
  CHECK(write->stop.stop_requested());
}

// The writes were cut off as soon as the term had ended: each with an unknown outcome, and the
// Lease was given away at once.
TEST_CASE("a write under way is not cut off by an orderly end", "[leadership][bug]") {
  Replica r(/*in_pod=*/false);
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.led == 1; }));
  auto write = r.tenure.Enter(seconds(8));
  const std::stop_callback cut(write->stop, [&] { write.reset(); });  // as a write does
  r.leadership->Leave();
  r.leadership->ReleaseLease();  // waits for it, in vain
  CHECK(r.cluster.Holder() == "me");
}

// It may still take effect when the next leader decides already.
TEST_CASE("a Lease is not given away right after a write without an answer", "[leadership][bug]") {
  Replica r(/*in_pod=*/false, seconds(60));
  r.leadership->Start();
  REQUIRE(Eventually([&] { return r.led == 1; }));
  r.tenure.NoteUnknown();
  r.leadership->Leave();
  r.leadership->ReleaseLease();
  CHECK(r.cluster.Holder() == "me");
}

TEST_CASE("an end before the beginning", "[leadership]") {
  Replica r;
  r.leadership->Leave();
  r.leadership->Start();
  r.leadership->ReleaseLease();
  CHECK(r.cluster.server.Requests().empty());
}

}  // namespace
}  // namespace berth::server
