#include "sim/trace/recording.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>

#include "cluster/resources.h"
#include "config/manifests.h"
#include "kube/decode.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

constexpr std::int64_t kMilli = 1'000;
constexpr std::int64_t kMib = 1 << 20;
constexpr std::int64_t kMostNodes = 100'000;
// What a job of a CSV without CPU and memory columns asks for, per GPU.
constexpr std::int64_t kCpuPerGpu = 4'000;
constexpr std::int64_t kMemoryPerGpu = 32LL << 30U;
constexpr const char* kModelLabel = "nvidia.com/gpu.product";

kube::Node MakeNode(const std::string& name, std::int64_t gpus, std::int64_t cpu,
                    std::int64_t memory) {
  kube::Node node;
  node.meta.name = name;
  node.meta.uid = "uid-" + name;
  node.meta.labels["kubernetes.io/hostname"] = name;
  node.allocatable = {{"cpu", cpu}, {"memory", memory}, {"pods", 110}};
  if (gpus > 0) node.allocatable[kGpu] = gpus * kMilli;
  return node;
}

/// `32x8`.
std::optional<std::vector<kube::Node>> MakeCluster(std::string_view text) {
  std::int64_t nodes = 0;
  std::int64_t gpus = 0;
  const char* const end = text.data() + text.size();
  const auto [by, first] = std::from_chars(text.data(), end, nodes);
  if (first != std::errc() || by == end || *by != 'x') return std::nullopt;
  const auto [stop, second] = std::from_chars(by + 1, end, gpus);
  if (second != std::errc() || stop != end) return std::nullopt;
  if (nodes < 1 || nodes > kMostNodes || gpus < 1 || gpus > 64) return std::nullopt;
  std::vector<kube::Node> made;
  for (std::int64_t i = 0; i < nodes; ++i) {
    made.push_back(MakeNode(fmt::format("node-{:05}", i), gpus, 128'000, 1LL << 40U));
    made.back().meta.labels["cloud.provider.com/topology-rack"] = fmt::format("rack-{}", i / 16);
    made.back().meta.labels["cloud.provider.com/topology-block"] = fmt::format("block-{}", i / 256);
  }
  return made;
}

std::string_view FirstLine(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::expected<std::vector<kube::Node>, InputError> DecodeNodes(std::string_view text,
                                                               const std::string& file) {
  const auto fail = [&file](std::string message) {
    return std::unexpected(InputError{file, 0, std::move(message)});
  };
  const auto manifests = config::ReadManifests(text);
  if (!manifests) return fail(manifests.error());
  simdjson::dom::parser parser;
  std::vector<kube::Node> nodes;
  for (const config::Manifest& manifest : *manifests) {
    if (manifest.kind != "Node") continue;
    auto node = kube::DecodeNode(manifest.json, parser);
    if (!node) return fail("Node " + manifest.name + ": " + node.error().ToString());
    nodes.push_back(*std::move(node));
  }
  if (nodes.empty()) return fail("no Node in it");
  return nodes;
}

kube::Pod MakePod(const std::string& name, std::int64_t gpus, std::int64_t cpu,
                  std::int64_t memory) {
  kube::Pod pod;
  pod.meta.name = name;
  pod.meta.ns = "default";
  auto spec = std::make_shared<kube::PodSpec>();
  if (cpu > 0) spec->requests["cpu"] = cpu;
  if (memory > 0) spec->requests["memory"] = memory;
  if (gpus > 0) spec->requests[kGpu] = gpus * kMilli;
  pod.spec = std::move(spec);
  return pod;
}

std::expected<Recording, InputError> FromJobs(const Traced<TraceJob>& jobs, bool has_arrivals,
                                              const ClusterGpus& gpus) {
  if (!jobs) return std::unexpected(jobs.error());
  Recording recording{.jobs = {}, .has_arrivals = has_arrivals, .left_out = {}};
  for (std::size_t i = 0; i < jobs->size(); ++i) {
    const TraceJob& job = (*jobs)[i];
    if (job.gpus < 1) {
      recording.left_out.push_back(fmt::format("job-{}: asks for no GPU", i));
    } else if (job.gpus > gpus.all) {
      // Checked before its pods are made, because one row can ask for 100,000.
      recording.left_out.push_back(
          fmt::format("job-{}: asks for {} GPUs, the cluster has {}", i, job.gpus, gpus.all));
    } else {
      recording.jobs.push_back(MakeJob(job, i, gpus.per_node));
    }
  }
  return recording;
}

RecordedJob MakePodJob(const OpenbPod& pod) {
  RecordedJob job{.name = pod.name,
                  .arrival = pod.creation_s * 1'000,
                  .service = std::max<Duration>(1, (*pod.deletion_s - *pod.scheduled_s) * 1'000),
                  .pods = {MakePod(pod.name, pod.gpus, pod.cpu_milli, pod.memory_mib * kMib)}};
  if (pod.models.empty()) return job;
  auto spec = std::make_shared<kube::PodSpec>(*job.pods.front().spec);
  spec->has_required_node_affinity = true;
  spec->required_node_affinity = {{.match_expressions = {{.key = kModelLabel,
                                                          .op = kube::SelectorOperator::kIn,
                                                          .values = pod.models}},
                                   .match_fields = {}}};
  job.pods.front().spec = std::move(spec);
  return job;
}

/// Makes arrivals begin at 0 and rise.
void Order(Recording& recording) {
  std::ranges::stable_sort(recording.jobs, {}, &RecordedJob::arrival);
  if (recording.jobs.empty()) return;
  const Duration first = recording.jobs.front().arrival;
  for (RecordedJob& job : recording.jobs) job.arrival -= first;
}

}  // namespace

std::int64_t RecordedJob::gpus() const {
  std::int64_t milli = 0;
  for (const kube::Pod& pod : pods) milli += AmountOf(pod.spec->requests, kGpu);
  return milli / kMilli;
}

RecordedJob MakeJob(const TraceJob& job, std::size_t index, std::int64_t gpus_per_node) {
  RecordedJob made{.name = fmt::format("job-{}", index),
                   .arrival = job.arrival_s * 1'000,
                   .service = std::max<Duration>(1, job.duration_s * 1'000),
                   .pods = {}};
  const std::int64_t pods = (job.gpus + gpus_per_node - 1) / gpus_per_node;
  for (std::int64_t i = 0; i < pods; ++i) {
    const std::int64_t gpus = std::min(gpus_per_node, job.gpus - i * gpus_per_node);
    made.pods.push_back(MakePod(pods == 1 ? made.name : fmt::format("{}-{}", made.name, i), gpus,
                                gpus * kCpuPerGpu, gpus * kMemoryPerGpu));
    if (pods == 1) continue;
    kube::Pod& pod = made.pods.back();
    pod.meta.labels["berth.dev/gang"] = made.name;
    pod.meta.labels["batch.kubernetes.io/job-completion-index"] = std::to_string(i);
    pod.meta.annotations["berth.dev/gang-size"] = std::to_string(pods);
  }
  return made;
}

std::expected<std::vector<kube::Node>, InputError> ReadCluster(const std::string& source) {
  if (auto made = MakeCluster(source)) return *std::move(made);
  constexpr std::string_view kDigits = "0123456789";
  const auto by = source.find_first_not_of(kDigits);
  if (by != std::string::npos && by > 0 && source[by] == 'x' &&
      source.find_first_not_of(kDigits, by + 1) == std::string::npos) {
    return std::unexpected(InputError{
        .file = source,
        .message = fmt::format("a cluster NxG has 1 to {} nodes of 1 to 64 GPUs", kMostNodes)});
  }
  const auto text = ReadInputFile(source);
  if (!text) return std::unexpected(text.error());
  return ReadNodes(*text, source);
}

std::expected<std::vector<kube::Node>, InputError> ReadNodes(std::string_view text,
                                                             const std::string& file) {
  if (!FirstLine(text).starts_with("sn,")) return DecodeNodes(text, file);
  const auto rows = ReadOpenbNodes(text, file);
  if (!rows) return std::unexpected(rows.error());
  std::vector<kube::Node> nodes;
  for (const OpenbNode& row : *rows) nodes.push_back(MakeOpenbNode(row));
  return nodes;
}

kube::Node MakeOpenbNode(const OpenbNode& row) {
  kube::Node node = MakeNode(row.name, row.gpus, row.cpu_milli, row.memory_mib * kMib);
  if (!row.model.empty()) node.meta.labels[kModelLabel] = row.model;
  return node;
}

ClusterGpus CountGpus(const std::vector<kube::Node>& nodes) {
  ClusterGpus gpus;
  for (const kube::Node& node : nodes) {
    // A single amount may be any number, but a sum could overflow.
    const std::int64_t here =
        std::min(AmountOf(node.allocatable, kGpu), cluster::kAbsurdAmount) / kMilli;
    gpus.all += here;
    gpus.per_node = std::max(gpus.per_node, here);
  }
  return gpus;
}

std::expected<Recording, InputError> ReadRecording(const std::string& path,
                                                   const ClusterGpus& gpus) {
  const auto text = ReadInputFile(path);
  if (!text) return std::unexpected(text.error());
  return ReadJobs(*text, path, gpus);
}

Recording RecordingOf(const std::vector<OpenbPod>& pods) {
  Recording recording;
  for (const OpenbPod& pod : pods) {
    const auto leave_out = [&](std::string_view why) {
      recording.left_out.push_back(fmt::format("{}: {}", pod.name, why));
    };
    if (!pod.scheduled_s || !pod.deletion_s || *pod.deletion_s < *pod.scheduled_s) {
      leave_out("never ran");
    } else if (pod.gpus == 1 && pod.gpu_milli < kMilli) {
      leave_out("asks for a share of a GPU, which kube-scheduler does not know");
    } else {
      recording.jobs.push_back(MakePodJob(pod));
    }
  }
  Order(recording);
  return recording;
}

std::expected<Recording, InputError> ReadJobs(const std::string& text, const std::string& file,
                                              const ClusterGpus& gpus) {
  const std::string_view header = FirstLine(text);
  std::expected<Recording, InputError> recording;
  if (header.starts_with("name,cpu_milli")) {
    const auto pods = ReadOpenbPods(text, file);
    if (!pods) return std::unexpected(pods.error());
    recording = RecordingOf(*pods);
  } else if (header.starts_with("duration_s,")) {
    recording = FromJobs(ReadPhillyDurations(text, file), false, gpus);
  } else if (header.starts_with("job_id,model,")) {
    recording = FromJobs(ReadTacc(text, file), true, gpus);
  } else if (header.starts_with("job_id,num_gpu,")) {
    recording = FromJobs(ReadTiresias(text, file), true, gpus);
  } else if (header.starts_with("vc,")) {
    return std::unexpected(InputError{file, 1, "arrivals without durations cannot be replayed"});
  } else {
    recording = ReadRecordedPods(text, file);
  }
  if (!recording) return recording;
  if (recording->jobs.empty()) {
    return std::unexpected(InputError{
        file, 0,
        recording->left_out.empty()
            ? "no pod in it"
            : "nothing in it can be replayed; the first is " + recording->left_out.front()});
  }
  Order(*recording);
  return recording;
}

}  // namespace berth::sim
