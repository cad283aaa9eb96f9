#include "engine/replay/replay.h"

#include <algorithm>
#include <functional>
#include <sstream>

#include "engine/engine.h"
#include "engine/replay/decision_line.h"
#include "engine/replay/recorder.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::replay {
namespace {

using engine::Engine;
using engine::TimePoint;
using testing::MakeNode;
using testing::MakePod;

/// An engine whose log is written as a host does it.
class Recorded {
 public:
  explicit Recorded(const config::PolicyConfiguration& policy =
                        testing::MakePolicy({testing::MakeQueue("team", {"default"}, 12)}))
      : recorder_([this](std::string line) { lines.push_back(std::move(line)); }) {
    options_.explain_decisions = true;
    options_.listener = &recorder_;
    engine_.emplace(policy, options_);
  }

  void At(TimePoint now, const std::function<void(Engine&)>& call) {
    call(*engine_);
    for (const engine::Action& action : engine_->TakeActions()) {
      if (const auto* decision = std::get_if<engine::Decision>(&action)) {
        lines.push_back(DecisionLine(*decision, now));
      }
    }
  }

  std::vector<std::string> lines;

 private:
  Recorder recorder_;
  engine::Options options_;
  std::optional<Engine> engine_;
};

/// Every kind of input, and most kinds of decisions.
std::vector<std::string> Log() {
  Recorded r;
  r.At(1, [](Engine& e) { e.OnNamespace(testing::MakeNamespace("default", {{"a", "b"}})); });
  r.At(1, [](Engine& e) { e.OnNamespaceDeleted("gone"); });
  r.At(1, [](Engine& e) { e.OnDisruptionBudget(testing::MakeBudget("b", "app", "x", 1)); });
  r.At(1, [](Engine& e) { e.OnDisruptionBudgetDeleted("nobody"); });
  const kube::DialectObject group{.kind = kube::DialectKind::kVolcanoPodGroup,
                                  .ns = "default",
                                  .name = "v",
                                  .uid = "v1",
                                  .min_member = 1,
                                  .tier_required = 1};
  r.At(1, [&](Engine& e) { e.OnDialectObject(group, 1); });
  r.At(1, [](Engine& e) { e.OnDialectObjectDeleted("nobody", 1); });
  for (const char* name : {"n1", "n2", "n3"}) {
    r.At(2, [&](Engine& e) { e.OnNode(MakeNode(name).Gpu(4), 2); });
  }
  r.At(10, [](Engine& e) { e.Start(10); });
  r.At(10, [](Engine& e) { e.BeginUsage({}, 10); });
  for (const char* name : {"g-0", "g-1"}) {
    r.At(20, [&](Engine& e) { e.OnPod(MakePod(name).Gpu(4).Gang("g", 2).Gated(), 20); });
  }
  r.At(21, [](Engine& e) { e.OnPod(MakePod("s").Gpu(2).Tolerate("x").HostPort(80), 21); });
  r.At(22, [](Engine& e) { e.OnPod(MakePod("big").Gpu(99).Gated(), 22); });
  r.At(25, [](Engine& e) { e.Step(25); });
  const std::vector<std::string_view> offered{"n1", "n2", "n3"};
  const kube::Pod unknown = MakePod("unknown").Gpu(1);
  r.At(30, [&](Engine& e) { e.Filter({.uid = "uid-s", .offered = offered}, 30); });
  r.At(31, [&](Engine& e) {
    e.Filter({.uid = "uid-unknown", .offered = offered, .request_pod = [&] { return &unknown; }},
             31);
  });
  std::string node;
  r.At(32, [&](Engine& e) {
    const auto planned = e.PlannedNode("uid-s");
    REQUIRE(planned != cluster::kNoNode);
    node = e.store().node(planned).name;
    e.Bind({.uid = "uid-s", .ns = "default", .name = "s", .node = node}, 32);
  });
  r.At(33, [](Engine& e) {
    e.BindFinished("uid-s", engine::BindOutcome::kUnknown, 33, "no \"answer\"");
  });
  r.At(34, [&](Engine& e) {
    e.OnPod(MakePod("s").Gpu(2).On(node), 34);
    e.BindSettled("uid-s", 34);
  });
  for (const char* name : {"g-0", "g-1"}) {
    r.At(35, [&](Engine& e) { e.OnPod(MakePod(name).Gpu(4).Gang("g", 2), 35); });
  }
  engine::BindAnswer call;
  const auto bind = [&](Engine& e, const std::string& pod, TimePoint now) {
    const auto index = e.PlannedNode("uid-" + pod);
    REQUIRE(index != cluster::kNoNode);
    const std::string on = e.store().node(index).name;
    return e.Bind({.uid = "uid-" + pod, .ns = "default", .name = pod, .node = on}, now);
  };
  r.At(36, [&](Engine& e) { call = bind(e, "g-0", 36); });
  REQUIRE(call.parked);
  r.At(37, [&](Engine& e) { e.BindAbandoned(call.ticket); });
  r.At(38, [&](Engine& e) { bind(e, "g-1", 38); });
  r.At(39, [](Engine& e) { e.BindFinished("uid-g-1", engine::BindOutcome::kBound, 39); });
  r.At(40, [](Engine& e) {
    e.Preempt("uid-big", {{"n1", {.uids = {"uid-s"}, .pdb_violations = 0}}}, 40);
  });
  r.At(41, [](Engine& e) { e.OnPod(MakePod("t").Gpu(2).Gated(), 41); });
  r.At(42, [](Engine& e) { e.Step(42); });
  r.At(50, [](Engine& e) { e.OnPolicy({}, 50); });
  r.At(60, [](Engine& e) { e.OnNodeDeleted("n3", 60); });
  r.At(70, [](Engine& e) { e.OnPodDeleted("uid-s", 70); });
  r.At(80, [](Engine& e) { e.Step(80); });
  r.lines.push_back(EndLine("stopped"));
  return r.lines;
}

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

Answer Run(const std::string& text) {
  std::istringstream in(text);
  std::ostringstream out;
  std::ostringstream err;
  const int code = Replay(in, "log", out, err);
  return {.code = code, .out = out.str(), .err = err.str()};
}

Answer Run(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return Run(text);
}

/// Inputs have objects with kinds of their own.
bool IsDecision(const std::string& line) {
  return line.find("\"kind\"") != std::string::npos && line.find("\"input\"") == std::string::npos;
}

/// The first line with `part`, from 0.
std::size_t Find(const std::vector<std::string>& lines, std::string_view part) {
  const auto it = std::ranges::find_if(
      lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  REQUIRE(it != lines.end());
  return static_cast<std::size_t>(it - lines.begin());
}

void Replace(std::string& text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
}

TEST_CASE("a log is decided again, decision by decision", "[replay]") {
  const auto lines = Log();
  const auto decisions = std::ranges::count_if(lines, IsDecision);
  CHECK(decisions >= 7);
  for (const char* kind : {"plan", "refuse", "start", "bind", "end", "dissolve"}) {
    Find(lines, "\"kind\":\"" + std::string(kind) + '"');
  }
  const Answer answer = Run(lines);
  CHECK(answer.err.empty());
  CHECK(answer.out == std::to_string(decisions) + " decisions, 0 differences\n");
  CHECK(answer.code == 0);
}

TEST_CASE("a decision that was changed is found, whatever was changed of it", "[replay]") {
  const auto lines = Log();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!IsDecision(lines[i])) continue;
    CAPTURE(lines[i]);
    auto tampered = lines;
    Replace(tampered[i], "\"time_ms\":", "\"time_ms\":1");
    const Answer answer = Run(tampered);
    CHECK(answer.code == 1);
    CHECK(answer.out.starts_with("log:" + std::to_string(i + 1) + ": the first difference"));
    CHECK(answer.out.find("recorded: " + tampered[i] + "\n") != std::string::npos);
    CHECK(answer.out.find("replayed: " + lines[i] + "\n") != std::string::npos);
    tampered = lines;
    tampered.erase(tampered.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(Run(tampered).code == 1);
    tampered.insert(tampered.begin() + static_cast<std::ptrdiff_t>(i), 2, lines[i]);
    CHECK(Run(tampered).code == 1);
  }
}

TEST_CASE("an input that was changed changes what is decided", "[replay]") {
  auto lines = Log();
  Replace(lines[Find(lines, "\"n1\"")], "\"nvidia.com/gpu\":4000", "\"nvidia.com/gpu\":1000");
  const Answer answer = Run(lines);
  CHECK(answer.code == 1);
  CHECK(answer.out.find("the first difference, after 0 equal decisions") != std::string::npos);
}

// One GPU is free, and the older of two pods is in the queue that used more.
TEST_CASE("what was used before orders the decisions of a log", "[replay]") {
  auto policy = testing::MakePolicy(
      {testing::MakeQueue("a", {"default"}), testing::MakeQueue("b", {"default"})});
  policy.borrowing = true;
  policy.fairness.half_life = std::chrono::hours(1);
  Recorded r(policy);
  r.At(1, [](Engine& e) { e.OnNode(MakeNode("n").Gpu(1), 1); });
  r.At(1, [](Engine& e) { e.OnPod(MakePod("old").Gpu(1).Queue("a").Created(1).Gated(), 1); });
  r.At(1, [](Engine& e) { e.OnPod(MakePod("new").Gpu(1).Queue("b").Created(2).Gated(), 1); });
  r.At(2, [](Engine& e) {
    e.BeginUsage({.until = 1, .queues = {{.queue = "a", .past = {{testing::kGpu, 4'000}}}}}, 2);
  });
  r.At(3, [](Engine& e) { e.Start(3); });
  r.At(4, [](Engine& e) { e.Step(4); });
  CHECK(r.lines[Find(r.lines, "\"kind\":\"plan\"")].find("default/pod/new") != std::string::npos);
  auto lines = r.lines;
  lines.push_back(EndLine("stopped"));
  CHECK(Run(lines).code == 0);
  Replace(lines[Find(lines, "\"beginUsage\"")], "\"queue\":\"a\"", "\"queue\":\"b\"");
  CHECK(Run(lines).code == 1);
}

TEST_CASE("a log that ends early says so", "[replay]") {
  auto lines = Log();
  lines.pop_back();
  CHECK(Run(lines).out.starts_with("log has no end: "));
  CHECK(Run(lines).code == 0);
  while (!IsDecision(lines.back())) lines.pop_back();
  lines.pop_back();  // killed between a call and its decision
  CHECK(Run(lines).code == 0);
  lines.push_back(EndLine("full"));
  CHECK(Run(lines).out.starts_with("log was full here; "));
  CHECK(Run(lines).code == 0);
  lines.back() = EndLine("stopped");  // in good order it would be there
  CHECK(Run(lines).code == 1);
}

TEST_CASE("a new process in the same log begins again", "[replay]") {
  auto lines = Log();
  lines.pop_back();
  const auto again = Log();
  lines.insert(lines.end(), again.begin(), again.end());
  CHECK(Run(lines).code == 0);
  CHECK(Run(lines).out ==
        std::to_string(std::ranges::count_if(lines, IsDecision)) + " decisions, 0 differences\n");
}

TEST_CASE("what is no file is an error with its name", "[replay]") {
  const auto error = [](const std::string& path, int code) {
    std::ostringstream out;
    std::ostringstream err;
    CHECK(ReplayFile(path, out, err) == code);
    return err.str();
  };
  CHECK(error("/nonexistent", 3) == "/nonexistent: No such file or directory\n");
  CHECK(error("/", 3) == "/: Is a directory\n");
  CHECK(error("/dev/null", 1) == "/dev/null: empty\n");
}

TEST_CASE("what is no log is an error with its line", "[replay]") {
  const auto lines = Log();
  const std::string begin = lines.front() + '\n';
  const std::string start = R"({"v":1,"time_ms":1,"input":"start"})"
                            "\n";
  const auto error = [](const std::string& text) {
    const Answer answer = Run(text);
    CAPTURE(text.substr(0, 200));
    CHECK(answer.code == 1);
    CHECK(answer.out.empty());
    return answer.err;
  };
  CHECK(error("") == "log: empty\n");
  CHECK(error("\n").starts_with("log:1: not JSON"));
  CHECK(error("[]\n") == "log:1: not an object\n");
  CHECK(error("{}\n") == "log:1: neither an input nor a decision\n");
  CHECK(error(begin + std::string("\0\xff", 2)).starts_with("log:2: not JSON"));
  CHECK(error(begin + lines[1].substr(0, 30)).starts_with("log:2: not JSON"));
  CHECK(error(begin + std::string(100'000, '[')).starts_with("log:2: not JSON"));
  CHECK(error(lines[1] + '\n').starts_with("log:1: the log does not begin here"));
  CHECK(error(lines[Find(lines, "\"kind\":\"plan\"")] + '\n')
            .starts_with("log:1: a decision without"));
  CHECK(error(begin + EndLine("stopped") + '\n' + lines[1]).starts_with("log:3: after the end"));
  CHECK(error(EndLine("stopped") + '\n').starts_with("log:1: an end without a begin"));
  CHECK(error(begin + EndLine("banana") + '\n') ==
        "log:2: an end that is neither stopped nor full\n");
  CHECK(error(begin + R"({"v":7,"end":"stopped"})") == "log:2: of another version than 1\n");
  CHECK(error(begin + R"({"end":"stopped"})") == "log:2: of another version than 1\n");
  CHECK(error(std::string(kMaxLineBytes + 1, 'x')) == "log:1: longer than 64 MiB\n");
  const auto input = [&](const std::string& rest) {
    return error(begin + R"({"v":1,"time_ms":1,"input":)" + rest + "}\n");
  };
  CHECK(input("\"nonsense\"") == "log:2: `nonsense` is no input\n");
  CHECK(input("3") == "log:2: neither an input nor a decision\n");
  CHECK(input("\"filter\",\"uid\":\"u\"") == "log:2: `filter` before `start`\n");
  CHECK(input("\"podDeleted\"") == "log:2: podDeleted: uid: missing\n");
  CHECK(input("\"podDeleted\",\"uid\":[]") == "log:2: podDeleted: uid: not a string\n");
  CHECK(input("\"step\",\"more\":1") == "log:2: step: a field is unknown, or there twice\n");
  CHECK(input(R"("node","node":{"metadata":{"labels":{"a":1}}})") ==
        "log:2: node: node.metadata.labels: not a string\n");
  CHECK(input(R"("node","node":{"allocatable":{"cpu":-1}})") ==
        "log:2: node: node.allocatable: not an amount\n");
  CHECK(input(R"("pod","pod":{"priority":4000000000})").starts_with("log:2: pod: pod.priority: "));
  CHECK(input(R"("pod","pod":{"phase":"Lost"})").find("none of its words") != std::string::npos);
  CHECK(input(R"("policy","policy":"kind: No")").starts_with("log:2: policy: "));
  CHECK(error(begin + R"({"v":2,"time_ms":1,"input":"step"})").starts_with("log:2: of another"));
  CHECK(error(begin + R"({"v":1,"time_ms":9223372036854775807,"input":"step"})")
            .starts_with("log:2: step: time_ms: out of range"));
  CHECK(error(begin + start + start) == "log:3: start: twice\n");
}

}  // namespace
}  // namespace berth::replay
