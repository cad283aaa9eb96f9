#include "kube/dialect_objects.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>

#include "kube/decode_reader.h"

namespace berth::kube {
namespace {

using internal::Reader;
using Object = Reader::Object;

constexpr std::string_view kTotalNumber = "gang.scheduling.koordinator.sh/total-number";

void ReadVolcano(Reader& reader, Object spec, DialectObject& group) {
  group.queue = reader.Text(spec, "queue");
  group.min_member = reader.Int32(spec, "minMember");
  reader.ObjectField(spec, "networkTopology", [&](Object topology) {
    // Volcano's own defaults: hard, the narrowest tier.
    const bool soft = reader.Text(topology, "mode") == "soft";
    const std::string_view name = reader.Text(topology, "highestTierName");
    if (!name.empty()) {
      (soft ? group.topology_preferred : group.topology_required) = name;
    } else {
      (soft ? group.tier_preferred : group.tier_required) =
          reader.Int32(topology, "highestTierAllowed", 1);
    }
  });
}

void ReadKai(Reader& reader, Object spec, DialectObject& group) {
  group.queue = reader.Text(spec, "queue");
  group.min_member = reader.Int32(spec, "minMember");
  if (reader.Int32(spec, "minSubGroup") != 0) {
    group.invalid = "spec.minSubGroup: Berth reads a minimum of members only";
  }
  reader.ObjectField(spec, "topologyConstraint", [&](Object topology) {
    group.topology_required = reader.Text(topology, "requiredTopologyLevel");
    group.topology_preferred = reader.Text(topology, "preferredTopologyLevel");
  });
}

void ReadInTree(Reader& reader, Object spec, DialectObject& group) {
  group.gang = false;
  group.min_member = 1;
  reader.ObjectField(spec, "schedulingPolicy", [&](Object policy) {
    reader.ObjectField(policy, "gang", [&](Object gang) {
      group.gang = true;
      group.min_member = reader.Int32(gang, "minCount");
    });
  });
}

void ReadSpec(Reader& reader, Object spec, DialectObject& object) {
  switch (object.kind) {
    case DialectKind::kVolcanoPodGroup:
      return ReadVolcano(reader, spec, object);
    case DialectKind::kKaiPodGroup:
      return ReadKai(reader, spec, object);
    case DialectKind::kSchedulerPluginsPodGroup:
    case DialectKind::kSigsPodGroup:
      object.min_member = reader.Int32(spec, "minMember");
      return;
    case DialectKind::kInTreePodGroup:
      return ReadInTree(reader, spec, object);
    case DialectKind::kKueueLocalQueue:
      object.queue = reader.Text(spec, "clusterQueue");
      return;
  }
}

}  // namespace

std::string DialectResource::Name() const { return fmt::format("{}.{}", plural, group); }

std::optional<DialectKind> DialectKindOf(std::string_view api_version,
                                         std::string_view object_kind) {
  const std::string_view group = api_version.substr(0, api_version.find('/'));
  const auto* const it = std::ranges::find_if(kDialectResources, [&](const auto& resource) {
    return resource.group == group && resource.object_kind == object_kind;
  });
  if (it == kDialectResources.end()) return std::nullopt;
  return it->kind;
}

std::expected<DialectObject, DecodeError> DecodeDialectObject(DialectKind kind,
                                                              simdjson::dom::element json) {
  Object root;
  if (json.get_object().get(root) != simdjson::SUCCESS) {
    return std::unexpected(DecodeError{.path = "", .text = "not an object"});
  }
  Reader reader;
  const ObjectMeta meta = reader.Meta(root, Author::kUser);
  if (!reader.problem() && (meta.name.empty() || meta.ns.empty() || meta.uid.empty())) {
    return std::unexpected(
        DecodeError{.path = "metadata", .text = "name, namespace or uid is missing"});
  }
  if (reader.problem()) return std::unexpected(*reader.problem());
  DialectObject object{.kind = kind, .ns = meta.ns, .name = meta.name, .uid = meta.uid};
  reader.ObjectField(root, "spec", [&](Object spec) { ReadSpec(reader, spec, object); });
  if (const auto total = meta.annotations.find(kTotalNumber); total != meta.annotations.end()) {
    std::from_chars(total->second.data(), total->second.data() + total->second.size(), object.size);
  }
  if (reader.problem()) object.invalid = reader.problem()->ToString();
  return object;
}

std::expected<GatherLevels, std::string> ReadGatherStrategy(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  Object object;
  if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS ||
      root.get_object().get(object) != simdjson::SUCCESS) {
    return std::unexpected("not a JSON object");
  }
  constexpr std::size_t kMaxLayers = 16;
  Reader reader;
  GatherLevels levels;
  reader.ObjectList(object, "gatherStrategy", kMaxLayers, [&](Object item) {
    const std::string_view strategy = reader.Text(item, "strategy");
    if (strategy == "MustGather") {
      levels.required = reader.Text(item, "layer");
    } else if (strategy == "PreferGather") {
      levels.preferred = reader.Text(item, "layer");
    } else {
      reader.Problem("a strategy that is neither MustGather nor PreferGather");
    }
  });
  if (reader.problem()) return std::unexpected(reader.problem()->ToString());
  return levels;
}

}  // namespace berth::kube
