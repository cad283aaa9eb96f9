#include "tests/fuzz/targets.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "cluster/dialects.h"
#include "cluster/hardware.h"
#include "cluster/plan_claim.h"
#include "config/decode.h"
#include "config/scheduler_config.h"
#include "engine/replay/replay.h"
#include "kube/client_config.h"
#include "kube/decode.h"
#include "kube/device_notes.h"
#include "kube/quantity.h"
#include "kube/stream.h"
#include "kube/time.h"
#include "server/verbs/wire.h"
#include "sim/experiments/traces.h"
#include "sim/scenario/scenario.h"
#include "sim/trace/recording.h"

namespace berth::fuzz {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/// The three request bodies of the extender protocol.
void Extender(std::string_view input) {
  std::string padded(input);
  padded.append(server::kBodyPadding, '\0');
  const server::PaddedBody body{.data = padded.data(), .size = input.size()};
  server::Decoder decoder;
  if (const auto args = decoder.DecodeExtenderArgs(body)) {
    server::FilterResult keep_none;
    std::string out;
    server::EncodeFilterResult(args->node_names, keep_none, out);
    simdjson::dom::parser parser;
    Require(parser.parse(out).error() == simdjson::SUCCESS, "a filter answer is JSON");
  }
  if (const auto args = decoder.DecodeBindArgs(body)) {
    Require(!args->node.empty() && args->node.size() <= server::kMaxNameBytes,
            "names are bounded and not empty");
  }
  (void)decoder.DecodePreemptionArgs(body);
}

/// Lines of a watch or a list, whole and byte by byte: the same pieces, and each an object at most.
void Stream(std::string_view input) {
  constexpr std::size_t kLimit = 4096;
  const auto split = [&](auto make, std::size_t step) {
    std::vector<std::string> pieces;
    const kube::PieceFunction take = [&](std::string_view piece) {
      pieces.emplace_back(piece);
      return pieces.size() < 64;
    };
    auto splitter = make(take);
    kube::SplitResult result = kube::SplitResult::kContinue;
    for (std::size_t at = 0; at < input.size() && result == kube::SplitResult::kContinue;
         at += step) {
      result = splitter.Feed(input.substr(at, step));
    }
    return std::pair(result, pieces);
  };
  const auto lines = [](const kube::PieceFunction& take) {
    return kube::LineSplitter(kLimit, take);
  };
  const auto items = [](const kube::PieceFunction& take) {
    return kube::ItemSplitter(kLimit, take);
  };
  const std::size_t whole = std::max<std::size_t>(1, input.size());
  Require(split(lines, whole) == split(lines, 1), "lines do not depend on how they arrive");
  Require(split(items, whole) == split(items, 1), "items do not depend on how they arrive");
}

/// One object of a watch event, of every kind.
void Objects(std::string_view input) {
  simdjson::dom::parser parser;
  if (const auto pod = kube::DecodePod(input, parser)) {
    Require(!pod->meta.uid.empty() && !pod->meta.name.empty(), "a pod has a name and a UID");
    const auto claims = cluster::ReadClaims(*pod, {});
    Require(claims.gang.size >= 0 && claims.gang.size <= cluster::kMaxGangSize,
            "a gang's size is bounded");
    for (const auto& [name, amount] : pod->spec->requests) {
      Require(amount >= 0, "no request is negative");
    }
  }
  (void)kube::DecodeNode(input, parser);
  (void)kube::DecodeNamespace(input, parser);
  (void)kube::DecodePriorityClass(input, parser);
  (void)kube::DecodePodDisruptionBudget(input, parser);
  (void)kube::DecodeConfigMap(input, parser);
}

void Quantity(std::string_view input) {
  const auto milli = kube::ParseMilli(input);
  const auto whole = kube::ParseWhole(input);
  Require(milli.has_value() == whole.has_value(), "both readings accept the same texts");
  for (const char* resource : {"cpu", "memory", "nvidia.com/gpu"}) {
    const auto amount = kube::ParseFor(resource, input);
    if (!amount) continue;
    Require(kube::ParseFor(resource, kube::Format(resource, *amount)) == amount,
            "a formatted amount reads back");
  }
}

void Time(std::string_view input) {
  if (const auto time = kube::ParseTime(input)) {
    const auto again = kube::ParseTime(kube::FormatTime(*time));
    Require(again.has_value(), "a formatted time reads back");
  }
  (void)kube::ParseDuration(input);
}

void PlanClaim(std::string_view input) {
  const auto claim = cluster::DecodePlanClaim(input);
  if (!claim) return;
  Require(cluster::DecodePlanClaim(cluster::EncodePlanClaim(*claim)) == claim,
          "a claim reads back");
}

/// What nodes and pods say of devices: HAMi's two annotations are two lines.
void DeviceNotes(std::string_view input) {
  const auto devices = kube::ParseDevices(input, "x/y");
  if (devices) {
    const std::string text = kube::EncodeDevices({{"c", *devices}}, "x/y");
    Require(kube::ParseDevices(text, "x/y") == devices, "devices read back");
  }
  const auto end = std::min(input.find('\n'), input.size());
  kube::Node node;
  for (const auto& [key, text] :
       {std::pair(kube::kDeviceTopologyAnnotation, input),
        {kube::kHamiRegisterAnnotation, input.substr(0, end)},
        {kube::kHamiScoreAnnotation, input.substr(std::min(end + 1, input.size()))}}) {
    if (key == kube::kHamiRegisterAnnotation) node.meta.annotations.clear();
    node.meta.annotations.emplace(key, text);
    for (const std::int64_t count : {1, 2, 3, 8, 16}) {
      const cluster::Hardware read = cluster::ReadHardware(node, count);
      const bool refused = read.source == cluster::HardwareSource::kRefused;
      Require(refused != read.problem.empty(), "a refusal has a reason");
      if (!read.machine) continue;
      Require(!refused && read.machine->count == count, "a machine is the node's");
      const auto& score = read.machine->score;
      for (std::size_t i = 0; i < score.size(); ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          Require(score[i][j] == score[j][i] && score[i][j] >= 0, "pairs are symmetric");
        }
      }
    }
  }
}

void Policy(std::string_view input) {
  const auto policy = config::DecodePolicy(input, "policy.yaml");
  if (!policy) {
    Require(!policy.error().empty(), "a refusal has a reason");
    return;
  }
  const auto again = config::DecodePolicy(config::EncodePolicy(*policy), "again.yaml");
  Require(again.has_value() && *again == *policy, "a policy reads back");
}

void SchedulerConfig(std::string_view input) {
  (void)config::CheckSchedulerConfig(input, "scheduler.yaml", config::PolicyConfiguration{});
}

void Kubeconfig(std::string_view input) {
  // The loader takes a path: it resolves file names against it.
  std::array<char, 32> path{"/tmp/berth-fuzz-XXXXXX"};
  const int fd = ::mkstemp(path.data());
  Require(fd >= 0, "a temporary file");
  std::FILE* file = ::fdopen(fd, "wb");
  std::fwrite(input.data(), 1, input.size(), file);
  std::fclose(file);
  (void)kube::LoadKubeconfig(path.data());
  std::remove(path.data());
  (void)kube::DecodeBase64(input);
}

/// Every format of `berth simulate trace`: what is taken is within bounds.
void Trace(std::string_view input) {
  if (const auto pods = sim::ReadOpenbPods(input, "pods.csv")) {
    for (const sim::OpenbPod& pod : *pods) {
      Require(pod.gpus >= 0 && pod.gpu_milli >= 0 && pod.gpu_milli <= 1000, "GPUs are bounded");
    }
  }
  if (const auto nodes = sim::ReadOpenbNodes(input, "nodes.csv")) {
    for (const sim::OpenbNode& node : *nodes) Require(node.gpus >= 0, "no node lacks GPUs");
  }
  for (const auto reader :
       {sim::ReadPhillyDurations, sim::ReadPhillyArrivals, sim::ReadTacc, sim::ReadTiresias}) {
    const auto jobs = reader(input, "jobs.csv");
    if (!jobs) continue;
    for (const sim::TraceJob& job : *jobs) {
      Require(job.gpus >= 0 && job.duration_s >= 0 && job.arrival_s >= 0,
              "times and GPUs count up");
    }
  }
  if (const auto nodes = sim::ReadNodes(input, "nodes")) {
    Require(!nodes->empty(), "a cluster has nodes");
    Require(sim::CountGpus(*nodes).per_node >= 1, "a job's pods can be counted");
  }
  constexpr sim::ClusterGpus kGpus{.all = 64, .per_node = 8};
  if (const auto recording = sim::ReadJobs(std::string(input), "jobs", kGpus)) {
    sim::Duration last = 0;
    for (const sim::RecordedJob& job : recording->jobs) {
      Require(job.arrival >= last && job.service >= 1 && !job.pods.empty(), "jobs come by arrival");
      last = job.arrival;
    }
  }
}

void Scenario(std::string_view input) {
  const auto scenario = scenario::Decode(input, "scenario.yaml");
  Require(scenario || !scenario.error().empty(), "a refusal has a reason");
}

void DecisionLog(std::string_view input) {
  std::istringstream in{std::string(input)};
  std::ostringstream out;
  std::ostringstream err;
  const int code = replay::Replay(in, "log", out, err);
  Require(code == 0 || !err.str().empty() || !out.str().empty(), "a failure is said");
}

constexpr std::array kTargets{
    Target{"extender", Extender},
    Target{"stream", Stream},
    Target{"objects", Objects},
    Target{"quantity", Quantity},
    Target{"time", Time},
    Target{"plan-claim", PlanClaim},
    Target{"device-notes", DeviceNotes},
    Target{"policy", Policy},
    Target{"scheduler-config", SchedulerConfig},
    Target{"kubeconfig", Kubeconfig},
    Target{"trace", Trace},
    Target{"scenario", Scenario},
    Target{"decision-log", DecisionLog},
};

}  // namespace

std::span<const Target> Targets() { return kTargets; }

}  // namespace berth::fuzz
