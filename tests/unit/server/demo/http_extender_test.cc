#include "server/demo/http_extender.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "server/http/http_server.h"
#include "tests/support/catch.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using nlohmann::json;

const std::vector<std::string> kOffered{"n1", "n2"};
constexpr auto kKeepsN1 =
    R"({"NodeNames":["n1"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"n2":"no"},"Error":""})";

kube::Pod PodToPlace() {
  kube::Pod pod;
  pod.meta.name = "p";
  pod.meta.ns = "ns";
  pod.meta.uid = "u";
  pod.nominated_node = "n1";
  return pod;
}

/// In place of the scheduler's thread.
class Inbox {
 public:
  void Put(sim::Event event) {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
    came_.notify_all();
  }
  /// Waits for an event and runs it.
  void RunOne() {
    std::unique_lock lock(mutex_);
    REQUIRE(came_.wait_for(lock, test::kPatience, [this] { return !events_.empty(); }));
    const sim::Event event = std::move(events_.front());
    events_.pop_front();
    lock.unlock();
    event();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<sim::Event> events_;
};

/// An extender in front of a server that has one handler for all verbs.
struct Extended {
  explicit Extended(HttpServer::Handler handler) {
    for (const char* path : {"/filter", "/prioritize", "/bind", "/preempt"}) {
      server.Handle("POST", path, handler);
    }
    kube::ClientConfig config;
    config.server = "http://127.0.0.1:" + std::to_string(*server.Listen("127.0.0.1", 0));
    client = *kube::RestClient::Create(std::move(config));
    extender = std::make_unique<HttpExtender>(
        env, *client, [this](sim::Event event) { inbox.Put(std::move(event)); });
  }
  Extended(int status, const std::string& body)
      : Extended([=](const HttpRequest&) { return HttpResponse{.status = status, .body = body}; }) {
  }

  std::expected<sim::FilterReply, std::string> Filter() {
    std::optional<std::expected<sim::FilterReply, std::string>> reply;
    extender->Filter(PodToPlace(), kOffered, [&](const auto& answer) { reply = answer; });
    CHECK_FALSE(reply.has_value());  // not before the scheduler's thread comes to it
    inbox.RunOne();
    REQUIRE(reply.has_value());
    return *reply;
  }

  sim::Environment env{1, 0, 0};
  Inbox inbox;
  HttpServer server;
  std::unique_ptr<kube::RestClient> client;
  std::unique_ptr<HttpExtender> extender;
};

TEST_CASE("a filter call has the pod and the offer, and its answer is read", "[demo]") {
  json request;
  Extended e([&](const HttpRequest& r) {
    request = json::parse(r.body);
    return HttpResponse{.body = kKeepsN1};
  });
  const auto reply = e.Filter();
  REQUIRE(reply.has_value());
  CHECK(reply->kept == std::vector<std::string>{"n1"});
  CHECK(reply->reason == "no");
  CHECK(request["Pod"]["metadata"]["uid"] == "u");
  CHECK(request["Pod"]["status"]["nominatedNodeName"] == "n1");
  CHECK(request["NodeNames"] == json(kOffered));
  CHECK(e.extender->Times()[0].verb == "filter");
  CHECK(e.extender->Times()[0].micros.size() == 1);
  CHECK(e.extender->Failures().empty());
}

TEST_CASE("a call without an answer that can be used fails, and is remembered", "[demo]") {
  struct Bad {
    int status;
    const char* body;
    const char* error;
  };
  const auto bad =
      GENERATE(Bad{503, "", "HTTP 503"},
               Bad{200, "oops", "the answer does not have the format of this verb"},
               Bad{200, R"({"NodeNames":["n9"]})", "filter named a node that was not offered: n9"},
               Bad{200, R"({"Error":"berth: what is this"})", "berth: what is this"});
  Extended e(bad.status, bad.body);
  const auto reply = e.Filter();
  REQUIRE_FALSE(reply.has_value());
  CHECK(reply.error() == bad.error);
  REQUIRE(e.extender->Failures().size() == 1);
  CHECK(e.extender->Failures().front().starts_with("filter: "));
  CHECK(e.extender->Failures().front().ends_with(bad.error));
}

TEST_CASE("a connection that breaks fails the call", "[demo]") {
  Extended e(200, kKeepsN1);
  e.server.Drain(std::chrono::seconds(1));
  CHECK_FALSE(e.Filter().has_value());
  CHECK(e.extender->Failures().size() == 1);
  CHECK(e.extender->Times()[0].micros.empty());
}

TEST_CASE("an answer that leaves out a node is used, and remembered", "[demo]") {
  Extended e(200, R"({"NodeNames":["n1"],"Error":""})");
  const auto reply = e.Filter();
  REQUIRE(reply.has_value());
  CHECK(reply->kept == std::vector<std::string>{"n1"});
  CHECK(e.extender->Failures() ==
        std::vector<std::string>{"filter: I5: filter: 1 kept and 0 refused of 2 offered"});
}

TEST_CASE("the other verbs", "[demo]") {
  std::string said;
  SECTION("the scores of prioritize") {
    Extended e(200, R"([{"Host":"n1","Score":10},{"Host":"n2","Score":3}])");
    e.extender->Prioritize(PodToPlace(), kOffered, [&](const auto& scores) {
      said = std::to_string(scores->at("n1")) + " " + std::to_string(scores->at("n2"));
    });
    e.inbox.RunOne();
    CHECK(said == "10 3");
  }
  SECTION("an error of bind is an answer") {
    Extended e(200, R"({"Error":"the gang left"})");
    e.extender->on_bind = [&](const std::string& uid) { said = uid + ": "; };
    e.extender->Bind({.ns = "ns", .name = "p", .uid = "u"}, "n1",
                     [&](const auto& error) { said += *error; });
    e.inbox.RunOne();
    CHECK(said == "u: the gang left");
    CHECK(e.extender->Failures().empty());
  }
  SECTION("preempt hands victims over and back") {
    Extended e([](const HttpRequest& r) {
      const json request = json::parse(r.body);
      const json answer{{"NodeNameToMetaVictims", request.at("NodeNameToMetaVictims")}};
      return HttpResponse{.body = answer.dump()};
    });
    e.extender->Preempt(
        PodToPlace(), {{"n1", {.uids = {"v"}, .pdb_violations = 2}}}, [&](const auto& kept) {
          said = kept->at("n1").uids.front() + " " + std::to_string(kept->at("n1").pdb_violations);
        });
    e.inbox.RunOne();
    CHECK(said == "v 2");
  }
}

TEST_CASE("a parked call ends when the extender stops, and is no failure", "[demo]") {
  std::promise<void> arrived;
  std::promise<void> opened;
  Extended e([&](const HttpRequest&) {
    arrived.set_value();
    opened.get_future().wait();
    return HttpResponse{.body = R"({"Error":""})"};
  });
  e.extender->Bind({.ns = "ns", .name = "p", .uid = "u"}, "n1", [](const auto&) {});
  REQUIRE(arrived.get_future().wait_for(test::kPatience) == std::future_status::ready);
  e.extender->Stop();
  CHECK(e.extender->Failures().empty());
  opened.set_value();
}

}  // namespace
}  // namespace berth::server
