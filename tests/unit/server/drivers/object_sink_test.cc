// What a reflector's objects become: news for the engine, deletes that a relist implies, and words
// about what could not be taken as it is.
#include "server/drivers/object_sink.h"

#include <malloc.h>
#include <simdjson.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kube/decode.h"
#include "tests/support/catch.h"

namespace berth::server {
namespace {

class SinkTest {
 public:
  void Upsert(const std::string& text) {
    simdjson::dom::parser parser;
    sink.Upsert(parser.parse(text));
  }
  void Delete(const std::string& uid) {
    simdjson::dom::parser parser;
    sink.Delete(parser.parse(R"({"metadata": {"uid": ")" + uid + R"("}})"));
  }
  /// What was logged, all of it: the logger is gone then.
  std::string Log() {
    logger.reset();
    return log;
  }

  std::string log;
  Metrics metrics{BuildInfo{}};
  std::unique_ptr<Logger> logger =
      std::make_unique<Logger>(LogFormat::kText, 0, [this](std::string_view line) { log += line; });
  std::map<std::string, bool> objects;
  ObjectSink sink{"pods", metrics, *logger,
                  [this](simdjson::dom::element json) -> Upserted {
                    const auto pod = kube::DecodePod(json);
                    if (!pod) return {.problem = pod.error().ToString()};
                    objects[pod->meta.uid] = true;
                    return {.key = pod->meta.uid, .problem = pod->meta.left_out};
                  },
                  [this](const std::string& key) { objects.erase(key); }};
};

std::string Pod(const std::string& uid, const std::string& labels = "{}") {
  return R"({"metadata": {"name": "p", "namespace": "ns", "uid": ")" + uid + R"(", "labels": )" +
         labels + "}}";
}

TEST_CASE("an object whose reading throws is named and counted, and the watch goes on",
          "[unit][server][bug]") {
  SinkTest t;
  ObjectSink sink(
      "pods", t.metrics, *t.logger,
      [&](simdjson::dom::element json) -> Upserted {
        const std::string name(json["metadata"]["name"].get_c_str().value());
        if (name == "odd") throw std::runtime_error("no such field");
        t.objects[name] = true;
        return {.key = name};
      },
      [](const std::string&) {});
  simdjson::dom::parser parser;
  for (const char* name : {"a", "odd", "b"}) {
    sink.Upsert(parser.parse(R"({"metadata": {"namespace": "ns", "name": ")" + std::string(name) +
                             R"("}})"));
  }
  CHECK(t.objects.size() == 2);
  CHECK_THAT(t.Log(), Catch::Contains("could not be read") && Catch::Contains("no such field") &&
                          Catch::Contains("name=odd"));
  CHECK_THAT(
      t.metrics.Serialize(),
      Catch::Contains(R"(berth_object_problems_total{problem="unreadable",resource="pods"} 1)"));
}

TEST_CASE("a relist removes what it does not name", "[unit][server]") {
  SinkTest t;
  t.sink.BeginReplace();
  for (const char* uid : {"a", "b"}) t.Upsert(Pod(uid));
  t.sink.EndReplace();
  t.Upsert(Pod("c"));
  t.Delete("a");
  CHECK(t.objects == std::map<std::string, bool>{{"b", true}, {"c", true}});
  t.sink.BeginReplace();
  t.Upsert(Pod("c"));
  t.sink.BeginReplace();  // the one before failed half way
  t.Upsert(Pod("b"));
  t.sink.EndReplace();
  CHECK(t.objects == std::map<std::string, bool>{{"b", true}});
}

TEST_CASE("what could not be read, or was cut, is named and counted", "[unit][server]") {
  SinkTest t;
  SECTION("unreadable") {
    t.Upsert(R"({"metadata": {"name": "p", "namespace": "ns"}})");
    t.Upsert(R"({"metadata": {"name": "q", "namespace": "ns"}})");
    CHECK_THAT(t.Log(), Catch::Contains("could not be read") && Catch::Contains("name=p") &&
                            Catch::Contains("metadata.uid: missing") &&
                            !Catch::Contains("name=q"));  // one in ten seconds
    CHECK_THAT(
        t.metrics.Serialize(),
        Catch::Contains(R"(berth_object_problems_total{problem="unreadable",resource="pods"} 2)"));
  }
  SECTION("cut") {
    std::string labels = "{";
    for (int i = 0; i < 300; ++i) labels += "\"l" + std::to_string(i) + "\": \"v\", ";
    labels += "\"z\": \"v\"}";
    t.Upsert(Pod("a", labels));
    CHECK(t.objects.contains("a"));
    CHECK_THAT(t.Log(), Catch::Contains("metadata.labels.l256 and 44 more"));
    CHECK_THAT(t.metrics.Serialize(),
               Catch::Contains(R"(berth_object_problems_total{problem="cut",resource="pods"} 1)"));
  }
}

TEST_CASE("pods that come and go leave nothing behind", "[unit][server][bug]") {
  SinkTest t;
  const auto come_and_go = [&t](int from, int to) {
    for (int i = from; i < to; ++i) {
      const std::string uid = "0f2b5b6c-6f0e-4d43-9f0e-" + std::to_string(1'000'000 + i);
      t.Upsert(Pod(uid));
      t.Delete(uid);
    }
  };
  t.sink.BeginReplace();
  t.sink.EndReplace();
  come_and_go(0, 1'000);
  const std::size_t before = mallinfo2().uordblks;
  come_and_go(1'000, 50'000);
  CHECK(t.objects.empty());
  CHECK(mallinfo2().uordblks < before + 100'000);
}

}  // namespace
}  // namespace berth::server
