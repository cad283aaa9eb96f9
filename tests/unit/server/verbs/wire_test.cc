#include "server/verbs/wire.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/catch.h"

namespace berth::server {
namespace {

/// A request body as a connection holds it.
class Body {
 public:
  explicit Body(std::string text) : text_(std::move(text)), size_(text_.size()) {
    text_.resize(size_ + kBodyPadding);
  }
  operator PaddedBody() const { return {.data = text_.data(), .size = size_}; }

 private:
  std::string text_;
  std::size_t size_;
};

/// The golden files are upstream's TestCompatibility shapes (kube-scheduler/extender/v1).
std::string Golden(const std::string& name) {
  std::ifstream file(BERTH_SOURCE_DIR "/tests/golden/wire/" + name + ".json");
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// As TestCompatibility does: Go's decoder takes keys in any case, and so do its users.
std::string LowerKeys(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string FilterError(const std::string& text) {
  Decoder decoder;
  const auto args = decoder.DecodeExtenderArgs(Body(text));
  return args ? "" : args.error();
}

template <typename Encode>
std::string Encoded(Encode encode) {
  std::string out;
  encode(out);
  return out;
}

TEST_CASE("filter requests of kube-scheduler are read", "[wire]") {
  Decoder decoder;
  for (const auto& text : {Golden("filter_request"), LowerKeys(Golden("filter_request"))}) {
    const Body body(text);
    const auto args = decoder.DecodeExtenderArgs(body);
    REQUIRE(args.has_value());
    CHECK(args->pod_name == "podname");
    CHECK(args->pod_namespace == "default");
    CHECK(args->pod_uid == "u-1");
    CHECK(args->pod_json.starts_with(R"({"metadata":)"));
    CHECK(args->pod_json.ends_with(R"("status":{}})"));
    CHECK(args->node_names == std::vector<std::string_view>{"node1", "node2", "node3"});
  }
}

TEST_CASE("bind requests of kube-scheduler are read", "[wire]") {
  Decoder decoder;
  for (const auto& text : {Golden("bind_request"), LowerKeys(Golden("bind_request"))}) {
    const Body body(text);
    const auto args = decoder.DecodeBindArgs(body);
    REQUIRE(args.has_value());
    CHECK(args->pod_name == "mypodname");
    CHECK(args->pod_namespace == "mypodnamespace");
    CHECK(args->pod_uid == "mypoduid");
    CHECK(args->node == "mynode");
  }
}

TEST_CASE("preemption requests are read, with UIDs or with whole pods", "[wire]") {
  Decoder decoder;
  for (const std::string name : {"preempt_request", "preempt_request_full_pods"}) {
    for (const auto& text : {Golden(name), LowerKeys(Golden(name))}) {
      const Body body(text);
      const auto args = decoder.DecodePreemptionArgs(body);
      REQUIRE(args.has_value());
      CHECK(args->pod_uid == "u-1");
      REQUIRE(args->node_to_victims.size() == 1);
      const auto& [node, victims] = *args->node_to_victims.begin();
      CHECK(node == "foo");
      CHECK(victims.pod_uids == std::vector<std::string>{"myuid"});
      CHECK(victims.num_pdb_violations == 1);
    }
  }
}

TEST_CASE("nulls among victims are tolerated", "[wire]") {
  Decoder decoder;
  const Body body(R"({"Pod":{},"NodeNameToMetaVictims":{"a":null,"b":{"Pods":null},
      "c":{"Pods":[null,{"UID":"x"},{"UID":null}],"NumPDBViolations":null}},
      "NodeNameToVictims":{"c":{"Pods":[]},"d":{"Pods":[{"metadata":{"uid":"y"}},null]}}})");
  const auto args = decoder.DecodePreemptionArgs(body);
  REQUIRE(args.has_value());
  CHECK(args->node_to_victims.size() == 4);
  CHECK(args->node_to_victims.at("a").pod_uids.empty());
  CHECK(args->node_to_victims.at("b").pod_uids.empty());
  CHECK(args->node_to_victims.at("c").pod_uids == std::vector<std::string>{"x"});
  CHECK(args->node_to_victims.at("d").pod_uids == std::vector<std::string>{"y"});
}

TEST_CASE("keys in any order and case, unknown ones skipped, the last one wins", "[wire]") {
  Decoder decoder;
  const Body body(
      R"( { "nodeNames":["x"], "Extra":{"NodeNames":[1,{"a":[]}]}, "NODENAMES":["a","b"],
      "Nodes":null, "pOd":{"spec":{"metadata":{"name":"no"}},
      "metadata":{"labels":{"name":"no"},"uid":"u","name":"n\"\u00e9","namespace":null}} } )");
  const auto args = decoder.DecodeExtenderArgs(body);
  REQUIRE(args.has_value());
  CHECK(args->pod_name == "n\"\xC3\xA9");
  CHECK(args->pod_namespace.empty());
  CHECK(args->pod_uid == "u");
  CHECK(args->node_names == std::vector<std::string_view>{"a", "b"});
  // Inside the pod Kubernetes' own keys apply, in their one case.
  const Body other(R"({"Pod":{"Metadata":{"name":"n"},"metadata":{"Name":"n"}},"NodeNames":[]})");
  CHECK(decoder.DecodeExtenderArgs(other)->pod_name.empty());
}

TEST_CASE("a scheduler entry without nodeCacheCapable is told so", "[wire]") {
  CHECK_THAT(FilterError(Golden("filter_request_full_nodes")),
             Catch::Contains("nodeCacheCapable: true"));
}

TEST_CASE("what is wrong with a request is named", "[wire]") {
  CHECK_THAT(FilterError(""), Catch::Contains("not JSON"));
  CHECK_THAT(FilterError("{"), Catch::StartsWith("ExtenderArgs: "));
  CHECK_THAT(FilterError("[]"), Catch::Contains("not a JSON object"));
  CHECK_THAT(FilterError("7"), Catch::Contains("not a JSON object"));
  CHECK_THAT(FilterError(R"({"NodeNames":["a"]})"), Catch::Contains("Pod is missing"));
  CHECK_THAT(FilterError(R"({"Pod":null,"NodeNames":["a"]})"), Catch::Contains("Pod is missing"));
  CHECK_THAT(FilterError(R"({"Pod":{}})"), Catch::Contains("NodeNames is missing"));
  CHECK_THAT(FilterError(R"({"Pod":1,"NodeNames":[]})"), Catch::Contains("Pod: "));
  CHECK_THAT(FilterError(R"({"Pod":{"metadata":[]},"NodeNames":[]})"),
             Catch::Contains("Pod.metadata: "));
  CHECK_THAT(FilterError(R"({"Pod":{"metadata":{"name":7}},"NodeNames":[]})"),
             Catch::Contains("Pod.metadata.name: "));
  CHECK_THAT(FilterError(R"({"Pod":{},"NodeNames":"a"})"), Catch::Contains("NodeNames: "));
  CHECK_THAT(FilterError(R"({"Pod":{},"NodeNames":["a",null]})"), Catch::Contains("NodeNames: "));
  CHECK_THAT(FilterError(R"({"Pod":{},"NodeNames":["a",""]})"), Catch::Contains("empty node name"));
  CHECK_THAT(FilterError(R"({"Pod":{},"NodeNames":[]} {})"), Catch::Contains("follows"));
  CHECK_THAT(FilterError("{\"Pod\":{},\"NodeNames\":[\"\xFF\"]}"), Catch::Contains("UTF-8"));
  CHECK_THAT(
      FilterError(R"({"Pod":{},"NodeNames":[")" + std::string(kMaxNameBytes + 1, 'n') + R"("]})"),
      Catch::Contains("321 bytes"));
  Decoder decoder;
  CHECK_THAT(
      decoder.DecodeBindArgs(Body(R"({"PodName":"a","PodNamespace":"b","PodUID":"c"})")).error(),
      Catch::Contains("Node is missing"));
  CHECK_THAT(decoder.DecodePreemptionArgs(Body("{}")).error(), Catch::Contains("Pod is missing"));
}

TEST_CASE("every prefix of a request is refused, and none reads past its end", "[wire]") {
  Decoder decoder;
  for (const std::string name : {"filter_request", "preempt_request", "bind_request"}) {
    const auto whole = Golden(name);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Body body(whole.substr(0, size));
      CHECK_FALSE(decoder.DecodeExtenderArgs(body).has_value());
      CHECK_FALSE(decoder.DecodePreemptionArgs(body).has_value());
      CHECK_FALSE(decoder.DecodeBindArgs(body).has_value());
    }
  }
}

TEST_CASE("deep nesting is refused in the pod and harmless elsewhere", "[wire]") {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  CHECK_THAT(FilterError(R"({"Pod":{"spec":)" + deep + R"(},"NodeNames":[]})"),
             Catch::Contains("nested too deep"));
  CHECK(FilterError(R"({"Pod":{"metadata":{"name":"[[\"[["}},"NodeNames":[],"X":)" + deep + "}")
            .empty());
  CHECK_FALSE(FilterError(R"({"Pod":{},"NodeNames":)" + deep + "}").empty());
  CHECK_FALSE(FilterError(std::string(200'000, '[')).empty());
}

TEST_CASE("the number of nodes has a bound", "[wire]") {
  const auto request = [](std::size_t nodes) {
    std::string text = R"({"Pod":{},"NodeNames":["n")";
    for (std::size_t i = 1; i < nodes; ++i) text += R"(,"n")";
    return text + "]}";
  };
  CHECK(FilterError(request(kMaxNodes)).empty());
  CHECK_THAT(FilterError(request(kMaxNodes + 1)), Catch::Contains("200,000"));
}

TEST_CASE("a decoder is good again after an error and after a giant", "[wire]") {
  Decoder decoder;
  const Body good(Golden("bind_request"));
  CHECK_FALSE(decoder.DecodeBindArgs(Body("{\"PodName\":")).has_value());
  CHECK(decoder.DecodeBindArgs(good).has_value());
  const Body giant(R"({"Other":")" + std::string(3'000'000, 'x') + R"(",)" +
                   Golden("bind_request").substr(1));
  CHECK(decoder.DecodeBindArgs(giant)->node == "mynode");
  CHECK(decoder.DecodeBindArgs(good)->node == "mynode");
}

TEST_CASE("answers are written as upstream writes them", "[wire]") {
  const std::vector<std::string_view> offered{"node1", "node2", "node3"};
  FilterResult one{.kept = {"node2"},
                   .refusal = Refusal::kUnresolvable,
                   .reason = "berth: WaitingForQuota",
                   .error = {}};
  CHECK(Encoded([&](auto& out) { EncodeFilterResult(offered, one, out); }) ==
        Golden("filter_reply"));
  FilterResult none{
      .kept = {}, .refusal = Refusal::kFailed, .reason = "berth: InsufficientDevices", .error = {}};
  CHECK(Encoded([&](auto& out) { EncodeFilterResult(offered, none, out); }) ==
        Golden("filter_reply_failed"));
  one.error = "myerror";
  CHECK(Encoded([&](auto& out) { EncodeFilterResult(offered, one, out); }) ==
        Golden("filter_reply_error"));
  const std::vector<HostPriority> priorities{{"myhost", 1}, {"other", 10}};
  CHECK(Encoded([&](auto& out) { EncodePriorities(priorities, out); }) ==
        Golden("prioritize_reply"));
  CHECK(Encoded([](auto& out) { EncodePriorities({}, out); }) == "[]");
  CHECK(Encoded([](auto& out) { EncodeBindResult("", out); }) == Golden("bind_reply"));
  CHECK(Encoded([](auto& out) { EncodeBindResult("myerror", out); }) == Golden("bind_reply_error"));
}

TEST_CASE("preemption answers are never null and never name a node without victims", "[wire]") {
  std::map<std::string, Victims, std::less<>> victims;
  CHECK(Encoded([&](auto& out) { EncodePreemption(victims, out); }) ==
        R"({"NodeNameToMetaVictims":{}})");
  victims["empty"] = {};
  victims["foo"] = {.pod_uids = {"myuid"}, .num_pdb_violations = 1};
  CHECK(Encoded([&](auto& out) { EncodePreemption(victims, out); }) == Golden("preempt_reply"));
}

TEST_CASE("kept nodes come best first, and only what was offered", "[wire]") {
  const std::vector<std::string_view> offered{"a", "b", "c"};
  const FilterResult result{
      .kept = {"c", "ghost", "a", "c"}, .refusal = Refusal::kFailed, .reason = "no", .error = {}};
  CHECK(Encoded([&](auto& out) { EncodeFilterResult(offered, result, out); }) ==
        R"({"Nodes":null,"NodeNames":["c","a"],"FailedNodes":{"b":"no"},)"
        R"("FailedAndUnresolvableNodes":{},"Error":""})");
}

TEST_CASE("strings are escaped", "[wire]") {
  const auto json = [](std::string_view text) {
    return Encoded([&](auto& out) { AppendJsonString(out, text); });
  };
  CHECK(json("") == R"("")");
  CHECK(json("a\"b\\c\n\r\t\x01/") == R"("a\"b\\c\n\r\t\u0001/")");
  CHECK(json("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") == "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
  // At every place of a word of eight bytes.
  for (std::size_t at = 0; at < 20; ++at) {
    for (const char c : {'"', '\\', '\x1F', '\x80', '\0'}) {
      std::string text(20, 'x');
      text[at] = c;
      CHECK(json(text).size() > 22);
    }
    std::string text(20, '\x7F');
    text[at] = ' ';
    CHECK(json(text) == "\"" + text + "\"");
  }
  // Lone, truncated, overlong, surrogate and out of range: one U+FFFD a byte.
  CHECK(json("\x80") == "\"\xEF\xBF\xBD\"");
  CHECK(json("\xE2\x82") == "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  CHECK(json("\xC0\x80") == "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  CHECK(json("\xED\xA0\x80") == "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  CHECK(json("\xF5").size() == 5);
}

TEST_CASE("what decoding a large body takes is given back", "[wire]") {
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  constexpr std::size_t kMiB = std::size_t{1} << 20U;
  std::string body = R"({"x":[)";
  for (std::size_t i = 0; i < 4 * kMiB; ++i) body += "[],";
  body += "[]]}";
  const std::size_t size = body.size();
  body.resize(size + kBodyPadding);
  Decoder decoder;
  const std::size_t before = in_use();
  CHECK_FALSE(decoder.DecodeExtenderArgs({.data = body.data(), .size = size}));
  decoder.ReleaseLarge();
  CHECK(in_use() < before + kMiB);
}

}  // namespace
}  // namespace berth::server
