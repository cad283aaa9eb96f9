#include "server/demo/demo.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "kube/terminal.h"
#include "server/demo/demo_history.h"
#include "server/demo/demo_report.h"
#include "server/demo/demo_world.h"

namespace berth::server {
namespace {

constexpr int kViolated = 1;
constexpr std::int64_t kLengthMs = 12'000;
constexpr std::int64_t kFastLengthMs = 2'400;
constexpr std::chrono::milliseconds kTick{10};
constexpr std::chrono::milliseconds kSettle{3'000};
constexpr const char* kExample = "examples/clusters/three-racks.yaml";

/// The output while the demo runs: on a terminal that is large enough, one view that is redrawn in
/// place; elsewhere a line now and then.
class Progress {
 public:
  explicit Progress(PictureStyle style) : style_(style) {
    winsize size{};
    live_ = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
            size.ws_col >= style.width;
    rows_ = size.ws_row;
  }

  void Show(const DemoWorld& world) {
    if (world.now() < next_) return;
    next_ = world.now() + (live_ ? 150 : 1000);
    if (!live_) {
      fmt::print("{}", ProgressLine(world));
      std::fflush(stdout);
      return;
    }
    Erase();
    const std::string view = LiveView(world, style_);
    lines_ = std::ranges::count(view, '\n');
    if (lines_ >= rows_) {  // does not fit: scrolling would tear it
      live_ = false;
      lines_ = 0;
      return;
    }
    fmt::print("{}", view);
    std::fflush(stdout);
  }

  /// Erases the live view.
  void Erase() {
    if (lines_ > 0) fmt::print("\x1b[{}A\x1b[J", lines_);
    lines_ = 0;
  }

 private:
  const PictureStyle style_;
  bool live_ = false;
  std::int64_t next_ = 0;
  std::ptrdiff_t lines_ = 0;
  std::ptrdiff_t rows_ = 0;
};

/// Prints the results of the demo's checks, and returns the exit code.
int Verdict(DemoWorld& world, const PictureStyle& style) {
  std::vector<std::string> broken = world.auditor().violations();
  for (const std::string& gang : world.auditor().PartlyBound()) {
    broken.push_back("gang " + gang + " runs with some of its members only");
  }
  const auto failures = world.scheduler().extender().Failures();
  for (const std::string& failure : failures) broken.push_back("a call failed: " + failure);
  if (broken.empty()) {
    fmt::print(
        "{} no GPU given twice ({} binds), no gang ran partly ({} started),\n"
        "no queue above its limit, {} pods evicted by the rules\n",
        Bold("Checked:", style), world.auditor().binds(), world.auditor().gangs_started(),
        world.auditor().evicted());
    return 0;
  }
  fmt::print("{}\n", Bold("BROKEN PROMISES:", style));
  for (const std::string& line : broken) kube::Write(stdout, fmt::format("  {}\n", line));
  return kViolated;
}

/// Prints commands that work from here, pasted one by one or together: the service takes a moment
/// to listen.
void SayNext(const DemoOptions& options, const PictureStyle& style) {
  const bool checkout = std::filesystem::exists(kExample);
  const std::string file = checkout ? kExample : "three-racks.yaml";
  fmt::print("\n{}\n", Bold("Next:", style));
  if (!checkout) fmt::print("  {} demo --print-cluster > {}\n", options.program, file);
  fmt::print("  {} serve --snapshot {} &\n", options.program, file);
  fmt::print("  until {} queues 2> /dev/null; do sleep 0.2; done\n", options.program);
  fmt::print("  {} why -n research pretrain-70b-0-da959\n", options.program);
}

QueueHistory Drive(DemoWorld& world, const DemoOptions& options, const PictureStyle& style) {
  const std::int64_t length = options.fast ? kFastLengthMs : kLengthMs;
  const double pace = static_cast<double>(length) / kLengthMs;
  Progress progress(style);
  QueueHistory history(length);
  world.Start(DemoStream(options.seed, world.gpus(), length, pace));
  while (world.now() < length) {
    world.Tick();
    if (history.Due(world.now())) history.Add(world.now(), world.Page("/api/v1/queues"));
    progress.Show(world);
    std::this_thread::sleep_for(kTick);
  }
  world.Settle(kSettle);
  progress.Erase();
  return history;
}

}  // namespace

int Demo(const DemoOptions& options) {
  if (options.print_cluster) {
    fmt::print("{}", kThreeRacks);
    return 0;
  }
  std::signal(SIGPIPE, SIG_IGN);
  auto world = DemoWorld::Create({.cluster = options.cluster,
                                  .verbose = options.verbose,
                                  .decision_log = options.decision_log,
                                  .speed = options.fast ? 100 : 20});
  if (!world) {
    kube::Write(stderr, fmt::format("berth demo: {}\n", world.error().message));
    return world.error().code;
  }
  const PictureStyle style = StyleOfTerminal(isatty(STDOUT_FILENO) != 0);
  fmt::print(
      "{}: {} GPUs on {} nodes in {} racks. No Kubernetes here: a model of\n"
      "kube-scheduler calls the real service over HTTP. Jobs of hours run for seconds.\n\n",
      Bold("berth demo", style), (*world)->gpus(), (*world)->nodes(), (*world)->racks());
  const QueueHistory history = Drive(**world, options, style);
  fmt::print("{}\n", Report(**world, history, style));
  const int code = Verdict(**world, style);
  (*world)->Stop();
  SayNext(options, style);
  return code;
}

}  // namespace berth::server
