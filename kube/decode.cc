#include "kube/decode.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "kube/decode_reader.h"

namespace berth::kube {
namespace {

using internal::Reader;
using Object = Reader::Object;
using Element = Reader::Element;
using internal::DecodeStrictly;

constexpr std::size_t kMaxConfigText = 4 * 1024 * 1024;

template <typename T, typename Decode>
std::expected<T, DecodeError> DecodeText(std::string_view json, simdjson::dom::parser& parser,
                                         Decode decode) {
  if (json.size() > kMaxObjectBytes) {
    return std::unexpected(DecodeError{.path = "", .text = "larger than 16 MiB"});
  }
  Element element;
  const simdjson::error_code error = parser.parse(json.data(), json.size()).get(element);
  if (error != simdjson::SUCCESS) {
    return std::unexpected(DecodeError{.path = "", .text = simdjson::error_message(error)});
  }
  return decode(element);
}

std::optional<TaintEffect> EffectFrom(std::string_view text) {
  if (text == "NoSchedule") return TaintEffect::kNoSchedule;
  if (text == "PreferNoSchedule") return TaintEffect::kPreferNoSchedule;
  if (text == "NoExecute") return TaintEffect::kNoExecute;
  return std::nullopt;
}

void ReadNode(Reader& reader, Object object, Node& node) {
  reader.ObjectField(object, "spec", [&](Object spec) {
    node.unschedulable = reader.Bool(spec, "unschedulable");
    reader.ObjectList(spec, "taints", kMaxItems, [&](Object taint) {
      const std::optional<TaintEffect> effect = EffectFrom(reader.Text(taint, "effect"));
      if (!effect) return;
      node.taints.push_back({.key = std::string(reader.Text(taint, "key")),
                             .value = std::string(reader.Text(taint, "value")),
                             .effect = *effect});
    });
  });
  node.ready = false;
  reader.ObjectField(object, "status", [&](Object status) {
    node.allocatable = reader.NodeAmounts(status, "allocatable");
    reader.ObjectList(status, "conditions", kMaxItems, [&](Object condition) {
      if (reader.Text(condition, "type") != "Ready") return;
      node.ready = reader.Text(condition, "status") == "True";
      if (!node.ready) node.not_ready_reason = std::string(reader.Text(condition, "reason"));
    });
  });
}

}  // namespace

std::string DecodeError::ToString() const { return path.empty() ? text : path + ": " + text; }

std::expected<Node, DecodeError> DecodeNode(Element json) {
  return DecodeStrictly<Node>(json, ReadNode, Author::kAdmin);
}

std::expected<Namespace, DecodeError> DecodeNamespace(Element json) {
  return DecodeStrictly<Namespace>(
      json, [](Reader&, Object, Namespace&) {}, Author::kAdmin);
}

std::expected<PriorityClass, DecodeError> DecodePriorityClass(Element json) {
  return DecodeStrictly<PriorityClass>(
      json, [](Reader& reader, Object object, PriorityClass& priority_class) {
        priority_class.value = reader.Int32(object, "value");
        priority_class.global_default = reader.Bool(object, "globalDefault");
      });
}

std::expected<PodDisruptionBudget, DecodeError> DecodePodDisruptionBudget(Element json) {
  return DecodeStrictly<PodDisruptionBudget>(
      json, [](Reader& reader, Object object, PodDisruptionBudget& budget) {
        reader.ObjectField(object, "spec", [&](Object spec) {
          budget.selector = reader.Selector(spec, "selector");
        });
        reader.ObjectField(object, "status", [&](Object status) {
          budget.disruptions_allowed = reader.Int32(status, "disruptionsAllowed");
        });
      });
}

std::expected<ConfigMap, DecodeError> DecodeConfigMap(Element json) {
  return DecodeStrictly<ConfigMap>(json, [](Reader& reader, Object object, ConfigMap& map) {
    map.data = reader.TextMap(object, "data", kMaxItems, kMaxConfigText);
  });
}

namespace {

/// How many pods, or Jobs, have succeeded: of the object itself by the empty name, and of each
/// replicated Job of a JobSet by its name.
using Succeeded = std::map<std::string_view, std::int32_t>;

std::int32_t Left(std::int32_t wanted, std::int32_t succeeded) {
  return std::max(0, wanted - std::clamp(succeeded, 0, std::max(0, wanted)));
}

/// Of one Job. `spec` is a JobSpec.
std::int64_t MostPods(Reader& reader, Object spec, std::int32_t succeeded) {
  const std::int32_t parallelism = std::max(0, reader.Int32(spec, "parallelism", 1));
  const std::int32_t completions = reader.Int32(spec, "completions", -1);
  return completions < 0 ? parallelism : std::min(parallelism, Left(completions, succeeded));
}

/// Of all Jobs of a JobSet that have not succeeded, those that have not begun among them.
std::int64_t MostPodsOfSet(Reader& reader, Object spec, Succeeded& succeeded) {
  std::int64_t most = 0;
  reader.ObjectList(spec, "replicatedJobs", kMaxItems, [&](Object replicated) {
    const std::int32_t jobs =
        Left(reader.Int32(replicated, "replicas", 1), succeeded[reader.Text(replicated, "name")]);
    reader.ObjectField(replicated, "template", [&](Object job) {
      reader.ObjectField(job, "spec", [&](Object job_spec) {
        // No cluster has so many: the sum of such products cannot overflow.
        constexpr std::int64_t kMany = std::numeric_limits<std::int32_t>::max();
        most = std::min(kMany, most + jobs * MostPods(reader, job_spec, 0));
      });
    });
  });
  return most;
}

}  // namespace

std::expected<Job, DecodeError> DecodeJob(Element json) {
  return DecodeStrictly<Job>(json, [](Reader& reader, Object object, Job& job) {
    const bool is_set = reader.Text(object, "kind") == "JobSet";
    Succeeded succeeded;
    job.controller = reader.Controller(object);
    reader.ObjectField(object, "status", [&](Object status) {
      succeeded[""] = reader.Int32(status, "succeeded");
      reader.ObjectList(status, "replicatedJobsStatus", kMaxItems, [&](Object replicated) {
        succeeded[reader.Text(replicated, "name")] = reader.Int32(replicated, "succeeded");
      });
      reader.ObjectList(status, "conditions", kMaxItems, [&](Object condition) {
        const std::string_view type = reader.Text(condition, "type");
        const bool ends = type == "Complete" || type == "Completed" || type == "Failed";
        job.finished |= ends && reader.Text(condition, "status") == "True";
      });
    });
    reader.ObjectField(object, "spec", [&](Object spec) {
      job.suspended = reader.Bool(spec, "suspend");
      job.managed_by = reader.Text(spec, "managedBy");
      job.most_pods =
          is_set ? MostPodsOfSet(reader, spec, succeeded) : MostPods(reader, spec, succeeded[""]);
    });
  });
}

std::expected<Pod, DecodeError> DecodePod(std::string_view json, simdjson::dom::parser& parser) {
  return DecodeText<Pod>(json, parser, [](Element element) { return DecodePod(element); });
}

std::expected<Node, DecodeError> DecodeNode(std::string_view json, simdjson::dom::parser& parser) {
  return DecodeText<Node>(json, parser, [](Element element) { return DecodeNode(element); });
}

std::expected<Namespace, DecodeError> DecodeNamespace(std::string_view json,
                                                      simdjson::dom::parser& parser) {
  return DecodeText<Namespace>(json, parser,
                               [](Element element) { return DecodeNamespace(element); });
}

std::expected<PriorityClass, DecodeError> DecodePriorityClass(std::string_view json,
                                                              simdjson::dom::parser& parser) {
  return DecodeText<PriorityClass>(json, parser,
                                   [](Element element) { return DecodePriorityClass(element); });
}

std::expected<PodDisruptionBudget, DecodeError> DecodePodDisruptionBudget(
    std::string_view json, simdjson::dom::parser& parser) {
  return DecodeText<PodDisruptionBudget>(
      json, parser, [](Element element) { return DecodePodDisruptionBudget(element); });
}

std::expected<ConfigMap, DecodeError> DecodeConfigMap(std::string_view json,
                                                      simdjson::dom::parser& parser) {
  return DecodeText<ConfigMap>(json, parser,
                               [](Element element) { return DecodeConfigMap(element); });
}

namespace {

/// Whoever makes a Job that cannot be read must not hide those of others.
JobList ReadableJobs(Element list, simdjson::dom::array items) {
  JobList readable;
  for (const Element item : items) {
    if (auto job = DecodeJob(item)) readable.jobs.push_back(*std::move(job));
  }
  std::string_view next;
  if (list["metadata"]["continue"].get(next) == simdjson::SUCCESS) readable.next = next;
  return readable;
}

std::expected<JobList, DecodeError> JobOrList(Element element) {
  simdjson::dom::array items;
  if (element["items"].get(items) == simdjson::SUCCESS) return ReadableJobs(element, items);
  auto job = DecodeJob(element);
  if (!job) return std::unexpected(std::move(job.error()));
  JobList one;
  one.jobs.push_back(*std::move(job));
  return one;
}

}  // namespace

std::expected<JobList, DecodeError> DecodeJobs(std::string_view json,
                                               simdjson::dom::parser& parser) {
  return DecodeText<JobList>(json, parser, JobOrList);
}

}  // namespace berth::kube
