// The codec compared with nlohmann::json as the oracle.
#include <rapidcheck.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "server/verbs/wire.h"
#include "tests/support/catch.h"

namespace berth::server {
namespace {

using nlohmann::json;

/// Text of any valid characters; those that need escaping are more frequent than by chance.
rc::Gen<std::string> Text(std::size_t most = 24) {
  const auto piece = rc::gen::element<std::string>("a", "node-", "7", ".", "\"", "\\", "\n", "\x01",
                                                   "/", "\xC3\xA9", "\xF0\x9F\x98\x80", "\x7F");
  return rc::gen::resize(
      static_cast<int>(most),
      rc::gen::map(rc::gen::container<std::vector<std::string>>(piece), [](const auto& pieces) {
        std::string text;
        for (const auto& one : pieces) text += one;
        return text;
      }));
}

std::string AnyCase(const std::string& key) {
  std::string out = key;
  for (auto& c : out) {
    if (*rc::gen::arbitrary<bool>()) c = static_cast<char>(std::tolower(c));
  }
  return out;
}

std::vector<std::string> UniqueNames() {
  const auto names = *rc::gen::container<std::set<std::string>>(
      rc::gen::suchThat(Text(), [](const std::string& text) { return !text.empty(); }));
  std::vector<std::string> order(names.begin(), names.end());
  std::ranges::reverse(order);
  return order;
}

std::string Padded(const json& value) {
  const bool indent = *rc::gen::arbitrary<bool>();
  const bool ascii = *rc::gen::arbitrary<bool>();  // Escapes as \uXXXX, surrogate pairs included.
  return value.dump(indent ? 2 : -1, ' ', ascii) + std::string(kBodyPadding, ' ');
}

PaddedBody BodyOf(const std::string& padded) {
  return {.data = padded.data(), .size = padded.size() - kBodyPadding};
}

void Check(const char* what, auto property) { REQUIRE(rc::check(what, property)); }

TEST_CASE("decoded filter requests agree with the oracle", "[wire][property]") {
  Decoder decoder;
  Check("decode = oracle", [&] {
    const auto names = UniqueNames();
    const json pod{
        {"metadata", {{"name", *Text()}, {"namespace", *Text()}, {"uid", *Text()}, {"x", *Text()}}},
        {"spec", {{"containers", {{{"name", *Text()}}}}}}};
    json request{{AnyCase("Pod"), pod}, {AnyCase("NodeNames"), names}, {"Unknown", *Text()}};
    if (*rc::gen::arbitrary<bool>()) request[AnyCase("Nodes")] = nullptr;
    const auto padded = Padded(request);
    const auto args = decoder.DecodeExtenderArgs(BodyOf(padded));
    RC_ASSERT(args.has_value());
    RC_ASSERT(args->pod_name == pod["metadata"]["name"].get<std::string>());
    RC_ASSERT(args->pod_namespace == pod["metadata"]["namespace"].get<std::string>());
    RC_ASSERT(args->pod_uid == pod["metadata"]["uid"].get<std::string>());
    RC_ASSERT(json::parse(args->pod_json) == pod);
    RC_ASSERT(std::ranges::equal(args->node_names, names));
  });
}

TEST_CASE("a damaged request is refused, or the oracle takes it too", "[wire][property]") {
  Decoder decoder;
  Check("decode of damaged input", [&] {
    auto padded = Padded({{"PodName", *Text()}, {"PodNamespace", "ns"}, {"Node", *Text()}});
    const auto size = padded.size() - kBodyPadding;
    padded[*rc::gen::inRange<std::size_t>(0, size)] = *rc::gen::arbitrary<char>();
    const auto args = decoder.DecodeBindArgs(BodyOf(padded));
    const auto body = std::string_view(padded).substr(0, size);
    RC_ASSERT(!args.has_value() || json::accept(body));
  });
}

TEST_CASE("filter answers partition the offer", "[wire][property]") {
  Check("encode partitions", [] {
    const auto names = UniqueNames();
    const std::vector<std::string_view> offered(names.begin(), names.end());
    const auto reason = *Text();
    FilterResult result{.kept = {}, .refusal = Refusal::kFailed, .reason = reason, .error = {}};
    if (*rc::gen::arbitrary<bool>()) result.refusal = Refusal::kUnresolvable;
    for (const auto name : offered) {
      if (*rc::gen::arbitrary<bool>()) result.kept.push_back(name);
    }
    if (*rc::gen::arbitrary<bool>()) std::ranges::reverse(result.kept);

    std::string out;
    EncodeFilterResult(offered, result, out);
    const auto reply = json::parse(out);
    RC_ASSERT(reply.size() == 5U);
    RC_ASSERT(reply["Nodes"].is_null());
    RC_ASSERT(reply["Error"] == "");
    const auto kept = reply["NodeNames"].get<std::vector<std::string>>();
    RC_ASSERT(std::ranges::equal(kept, result.kept));
    const bool failed = result.refusal == Refusal::kFailed;
    RC_ASSERT(reply[failed ? "FailedAndUnresolvableNodes" : "FailedNodes"].empty());
    const auto refused = reply[failed ? "FailedNodes" : "FailedAndUnresolvableNodes"]
                             .get<std::map<std::string, std::string>>();
    RC_ASSERT(kept.size() + refused.size() == offered.size());
    std::set<std::string> all(kept.begin(), kept.end());
    for (const auto& [node, text] : refused) {
      RC_ASSERT(text == reason);
      all.insert(node);
    }
    RC_ASSERT(all == std::set<std::string>(names.begin(), names.end()));
  });
}

TEST_CASE("preemption maps come back as they went", "[wire][property]") {
  Decoder decoder;
  Check("decode(encode(x)) = x, less the empty ones", [&] {
    std::map<std::string, Victims, std::less<>> victims;
    for (const auto& node : UniqueNames()) {
      victims[node] = {.pod_uids = UniqueNames(),
                       .num_pdb_violations = *rc::gen::inRange<std::int64_t>(-5, 1'000'000)};
    }
    std::string out;
    EncodePreemption(victims, out);
    auto request = json::parse(out);
    request["Pod"] = json::object();
    const auto padded = Padded(request);
    const auto args = decoder.DecodePreemptionArgs(BodyOf(padded));
    RC_ASSERT(args.has_value());
    std::erase_if(victims, [](const auto& entry) { return entry.second.pod_uids.empty(); });
    RC_ASSERT(args->node_to_victims.size() == victims.size());
    for (const auto& [node, expected] : victims) {
      const auto& got = args->node_to_victims.at(node);
      RC_ASSERT(got.pod_uids == expected.pod_uids);
      RC_ASSERT(got.num_pdb_violations == expected.num_pdb_violations);
    }
  });
}

TEST_CASE("any bytes become valid JSON text", "[wire][property]") {
  Check("escape", [] {
    const auto bytes = *rc::gen::arbitrary<std::string>();
    std::string out;
    AppendJsonString(out, bytes);
    const auto parsed = json::parse(out).get<std::string>();
    if (json::accept("\"" + bytes + "\"") && bytes.find('\\') == bytes.npos) {
      RC_ASSERT(parsed == bytes);
    }
  });
}

}  // namespace
}  // namespace berth::server
