#include "kube/decode.h"

#include <simdjson.h>

#include <algorithm>
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

std::expected<Job, DecodeError> DecodeJob(Element json) {
  return DecodeStrictly<Job>(json, [](Reader& reader, Object object, Job& job) {
    std::int64_t succeeded = 0;
    job.controller = reader.Controller(object);
    reader.ObjectField(object, "status", [&](Object status) {
      succeeded = std::max(0, reader.Int32(status, "succeeded"));
      reader.ObjectList(status, "conditions", kMaxItems, [&](Object condition) {
        const std::string_view type = reader.Text(condition, "type");
        // A JobSet is `Completed`.
        const bool ends = type == "Complete" || type == "Completed" || type == "Failed";
        job.finished |= ends && reader.Text(condition, "status") == "True";
      });
    });
    reader.ObjectField(object, "spec", [&](Object spec) {
      job.suspended = reader.Bool(spec, "suspend");
      job.managed_by = reader.Text(spec, "managedBy");
      job.most_pods = std::max(0, reader.Int32(spec, "parallelism", 1));
      const std::int64_t completions = reader.Int32(spec, "completions", -1);
      if (completions < 0) return;
      job.most_pods = std::clamp<std::int64_t>(completions - succeeded, 0, job.most_pods);
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
  const auto list = element["items"];
  // Of metadata alone, kube-apiserver 1.36 answers null where there are none.
  if (list.error() == simdjson::SUCCESS && list.is_null()) return JobList();
  if (list.get(items) == simdjson::SUCCESS) return ReadableJobs(element, items);
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
