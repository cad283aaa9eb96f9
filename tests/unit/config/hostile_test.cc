// Files made to hurt: every one gets an answer, soon, with a position, and nothing is thrown.
#include <chrono>

#include "config/decode.h"
#include "config/manifests.h"
#include "config/scheduler_config.h"
#include "tests/support/catch.h"
#include "tests/unit/config/policies.h"

namespace berth::config {
namespace {

using testing::ErrorsOf;
using testing::kHeader;
using Lines = std::vector<std::string>;

constexpr std::size_t kMaxYamlBytes = YamlLimits{}.bytes;

std::string Repeat(std::string_view piece, std::size_t bytes) {
  std::string text;
  while (text.size() + piece.size() <= bytes) text += piece;
  return text;
}

TEST_CASE("a file of one piece over and over is refused") {
  // Each of these has been deadly to some YAML reader: recursion, look-ahead, quadratic scans.
  const std::string_view pieces[] = {
      "[",  "{", "- ", "? ", "a: ",  "[a,",   "{a: ", "&a ",     "*a ",   "!a ",      "\n- ",  "]",
      "}",  ",", "\"", "'",  "|\n ", ">\n\n", "#",    "%A\n",    "---\n", "---a\n",   "...\n", "x",
      "\\", " ", "\n", "\t", "a:\n", "- a\n", "a\n",  "'a': b,", ": ",    "\xC3\xA9", "<<: "};
  for (const std::string_view piece : pieces) {
    INFO("piece: " << piece);
    CHECK(!ErrorsOf(Repeat(piece, kMaxYamlBytes / 8)).empty());
    CHECK(!ErrorsOf(Repeat(piece, 5000)).empty());
    CHECK(!CheckSchedulerConfig(Repeat(piece, 5000), "s", {}).empty());
  }
}

TEST_CASE("the largest file of brackets is refused") {
  for (const std::string_view piece : {"[", "{", "\""}) {
    CHECK(ErrorsOf(Repeat(piece, kMaxYamlBytes)).size() == 1);
  }
}

TEST_CASE("size and depth are bounded") {
  CHECK(ErrorsOf(std::string(kMaxYamlBytes + 1, '#')) == Lines{"p:1:1: larger than 1048576 bytes"});
  CHECK(ErrorsOf(kHeader + std::string(kMaxYamlBytes - kHeader.size(), '#')).empty());
  CHECK(ErrorsOf(kHeader + "queues: " + std::string(33, '[') + std::string(33, ']')) ==
        Lines{"p:3:40: nested deeper than 32 levels"});
  std::string many = kHeader + "schedulerNames:\n";
  while (many.size() < kMaxYamlBytes - 10) many += "- a\n";
  CHECK(ErrorsOf(many).size() == 1);
  CHECK(ErrorsOf(many).front().find("more than 100000 values") != std::string::npos);
}

TEST_CASE("errors are bounded too, and the last one says so") {
  std::string text = kHeader;
  for (int i = 0; i < 5000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const Lines errors = ErrorsOf(text);
  REQUIRE(errors.size() == 1001);
  CHECK(errors.back() == "p:1003:1: more than 1000 errors: the others are not shown");
}

TEST_CASE("long lists take time in proportion") {
  std::string queues = kHeader + "queues:\n";
  for (int i = 0; i < 10'000; ++i) {
    const std::string n = std::to_string(i);
    queues += "- {name: queue-" + n + ", parent: kueue-" + n + ", quota: {gqu: 1}}\n";
  }
  CHECK(ErrorsOf(queues).size() == 1001);
  std::string chain = kHeader + "queues:\n- {name: q0}\n";
  for (int i = 1; i < 10'000; ++i) {
    chain += "- {name: q" + std::to_string(i) + ", parent: q" + std::to_string(i - 1) + "}\n";
  }
  CHECK(ErrorsOf(chain) ==
        Lines{"p:20:23: queues[16].parent: a tree of queues is at most 16 levels deep"});
  std::string devices = kHeader + "resources: {devices: [";
  for (int i = 0; i < 10'000; ++i) devices += "{name: a/d" + std::to_string(i) + "},";
  CHECK(ErrorsOf(devices + "]}") ==
        Lines{"p:3:22: resources.devices: at most 64 entries, has 10000"});
}

TEST_CASE("manifests that would keep a reader busy for ever, or break its stack, are refused") {
  const auto error = [](std::string_view text) {
    const auto manifests = ReadManifests(text);
    return manifests ? std::string("taken") : manifests.error();
  };
  // yaml-cpp never comes to an end of these documents.
  CHECK(error("{a: 1},{b: 2}").find("more than 28 values") != std::string::npos);
  CHECK(error("kind: Pod\nmetadata: &m {name: a}\nspec: *m\n") ==
        "line 2, column 11: anchors (&name) are not supported");
  const std::string deep = Repeat("[", 100'000);
  CHECK(error(deep + Repeat("]", 100'000)) == "nested deeper than 64 levels");
  CHECK(error("- " + deep).find("nested deeper than 64 levels") != std::string::npos);
  CHECK(error(R"({"kind": "Pod", "metadata": )" + Repeat("{\"a\":", 200'000)) ==
        "nested deeper than 64 levels");
}

TEST_CASE("aliases, anchors and tags are refused, all of them") {
  const std::string bomb =
      "a: &a [x, x, x, x]\n"
      "b: &b [*a, *a, *a, *a]\n";
  CHECK(ErrorsOf(kHeader + bomb) ==
        Lines{"p:3:4: anchors (&name) are not supported",
              "p:4:4: anchors (&name) are not supported",
              "p:4:8: aliases (*name) are not supported: write the value out",
              "p:4:12: aliases (*name) are not supported: write the value out",
              "p:4:16: aliases (*name) are not supported: write the value out",
              "p:4:20: aliases (*name) are not supported: write the value out"});
  CHECK(ErrorsOf(kHeader + "mode: !!str enforce\n") ==
        Lines{"p:3:7: tags (!name) are not supported"});
  CHECK(ErrorsOf(kHeader + "mode: *missing\n").size() == 1);
}

TEST_CASE("bytes that are not text are refused where they are") {
  CHECK(ErrorsOf(std::string_view("mode: \0", 7)) == Lines{"p:1:7: control character (byte 0x00)"});
  CHECK(ErrorsOf("a: b\n\x04") == Lines{"p:2:1: control character (byte 0x04)"});
  CHECK(ErrorsOf("a: \x7F") == Lines{"p:1:4: control character (byte 0x7F)"});
  const std::string_view invalid[] = {"\xFF\xFE",
                                      "\xC0\x80",
                                      "\xC3",
                                      "\x80",
                                      "\xED\xA0\x80",
                                      "\xE0\x80\x80",
                                      "\xF0\x80\x80\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xE2\x82",
                                      "\xC3("};
  for (const std::string_view bytes : invalid) {
    const Lines errors = ErrorsOf("a: " + std::string(bytes));
    REQUIRE(errors.size() == 1);
    CHECK(errors.front().starts_with("p:1:4: not UTF-8 text (byte 0x"));
  }
}

TEST_CASE("what is not YAML says where") {
  for (const std::string_view text : {"a: [", "a: b: c", "\"abc", "a\n\tb: c", "- a\nb: c", "@a",
                                      "%", "a: 'x", "{a: 1}}", "a: |x\n"}) {
    INFO(text);
    const Lines errors = ErrorsOf(text);
    REQUIRE(!errors.empty());
    CHECK(errors.front().starts_with("p:"));
  }
  CHECK(ErrorsOf("a: b: c").front().starts_with("p:1:5: not valid YAML: "));
}

TEST_CASE("long values are not repeated in full") {
  const Lines errors = ErrorsOf(kHeader + "mode: " + std::string(100'000, 'x') + "\n" +
                                std::string(1000, 'k') + ": 1\n");
  REQUIRE(errors.size() == 2);
  for (const std::string& error : errors) CHECK(error.size() < 300);
}

TEST_CASE("every prefix and every single changed byte of a policy gets an answer") {
  const std::string policy = EncodePolicy({});
  for (std::size_t i = 0; i <= policy.size(); ++i) (void)DecodePolicy(policy.substr(0, i), "p");
  for (std::size_t i = 0; i < policy.size(); ++i) {
    for (const char byte : {'\0', ' ', '\n', ':', '-', '[', '"', '&', '0', '\xFF'}) {
      std::string changed = policy;
      changed[i] = byte;
      (void)DecodePolicy(changed, "p");
    }
  }
}

}  // namespace
}  // namespace berth::config
