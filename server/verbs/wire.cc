#include "server/verbs/wire.h"

#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace berth::server {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(kBodyPadding >= simdjson::SIMDJSON_PADDING);

/// A parser's buffers grow with the largest document it has seen, to about six times its size;
/// beyond this size they are freed once it is answered.
constexpr std::size_t kKeepBuffersUpTo = std::size_t{1} << 20;

constexpr char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

/// Whether `key` is `lower`, which is lower-case, in any case.
bool KeyIs(std::string_view key, std::string_view lower) {
  return key.size() == lower.size() && std::ranges::equal(key, lower, {}, Lower);
}

/// Thrown inside this file only, and caught in Run(): the same error path for every malformed
/// input.
struct DecodeError {
  std::string text;
};

[[noreturn]] void Fail(std::string text) { throw DecodeError{std::move(text)}; }

template <typename T>
T Take(simdjson::simdjson_result<T> result, std::string_view what) {
  T value;
  if (const auto error = std::move(result).get(value)) {
    Fail(std::string(what) + ": " + simdjson::error_message(error));
  }
  return value;
}

bool IsNull(ondemand::value& value, std::string_view what) { return Take(value.is_null(), what); }

[[noreturn]] void FailTooLong(std::string_view what, std::size_t size) {
  Fail(std::string(what) + ": a name of " + std::to_string(size) + " bytes; at most " +
       std::to_string(kMaxNameBytes) + " are allowed");
}

std::string_view TakeName(ondemand::value value, std::string_view what) {
  const auto text = Take<std::string_view>(value.get_string(), what);
  if (text.size() > kMaxNameBytes) FailTooLong(what, text.size());
  return text;
}

/// A name that may be null, which reads as empty.
std::string_view TakeOptionalName(ondemand::value value, std::string_view what) {
  return IsNull(value, what) ? std::string_view{} : TakeName(value, what);
}

/// Calls `visit(key, value)` for each field.
template <typename Visit>
void ForEachField(ondemand::object object, std::string_view what, Visit visit) {
  for (auto field : object) {
    ondemand::field entry;
    if (const auto error = std::move(field).get(entry)) {
      Fail(std::string(what) + ": " + simdjson::error_message(error));
    }
    const auto key = Take<std::string_view>(entry.unescaped_key(), what);
    visit(key, entry.value());
  }
}

template <typename Visit>
void ForEachElement(ondemand::array array, std::string_view what, Visit visit) {
  for (auto element : array) visit(Take<ondemand::value>(std::move(element), what));
}

/// The code below may decode the pod with a recursive reader: limit its depth.
void CheckDepth(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      if (c == '\\') ++i;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxPodDepth) Fail("Pod: nested too deep");
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

struct PodKey {
  std::string_view name;
  std::string_view ns;
  std::string_view uid;
};

PodKey TakeMetadata(ondemand::object pod) {
  PodKey key;
  ForEachField(pod, "Pod", [&](std::string_view pod_field, ondemand::value value) {
    if (pod_field != "metadata" || IsNull(value, "Pod.metadata")) return;
    const auto metadata = Take<ondemand::object>(value.get_object(), "Pod.metadata");
    ForEachField(metadata, "Pod.metadata", [&](std::string_view field, ondemand::value name) {
      if (field == "name") key.name = TakeOptionalName(name, "Pod.metadata.name");
      if (field == "namespace") key.ns = TakeOptionalName(name, "Pod.metadata.namespace");
      if (field == "uid") key.uid = TakeOptionalName(name, "Pod.metadata.uid");
    });
  });
  return key;
}

/// Reads the Pod field of any args type. `raw` gets the pod's own text.
PodKey TakePod(ondemand::value value, std::string_view* raw) {
  auto pod = Take<ondemand::object>(value.get_object(), "Pod");
  const auto text = Take<std::string_view>(pod.raw_json(), "Pod");
  CheckDepth(text);
  if (raw != nullptr) *raw = text;
  Take<bool>(pod.reset(), "Pod");
  return TakeMetadata(pod);
}

/// The text of a string without escapes, as a view into the body; else nullopt. Names never have
/// escapes, and unescaping byte by byte would take most of the time of a filter call.
std::optional<std::string_view> PlainText(std::string_view token) {
  while (!token.empty() && token.back() <= ' ') token.remove_suffix(1);
  if (token.size() < 2 || token.front() != '"' || token.back() != '"') return std::nullopt;
  token = token.substr(1, token.size() - 2);
  if (token.find('\\') != token.npos) return std::nullopt;
  return token;
}

/// The one long list, and therefore written without the helpers above: they cost as much as the
/// rest.
void TakeNodeNames(ondemand::value value, std::vector<std::string_view>& names) {
  names.clear();
  for (auto element : Take<ondemand::array>(value.get_array(), "NodeNames")) {
    std::string_view token;
    if (const auto error = element.raw_json_token().get(token)) {
      Fail(std::string("NodeNames: ") + simdjson::error_message(error));
    }
    const auto plain = PlainText(token);
    const auto name = plain ? *plain : Take<std::string_view>(element.get_string(), "NodeNames");
    if (name.size() > kMaxNameBytes) FailTooLong("NodeNames", name.size());
    if (name.empty()) Fail("NodeNames: an empty node name");
    if (names.size() == kMaxNodes) Fail("NodeNames: more than 200,000 nodes");
    names.push_back(name);
  }
}

enum class VictimKind : std::uint8_t { kMeta, kFullPod };

std::string_view TakeVictimUid(ondemand::value pod, VictimKind kind) {
  const auto object = Take<ondemand::object>(pod.get_object(), "Pods");
  if (kind == VictimKind::kFullPod) return TakeMetadata(object).uid;
  std::string_view uid;
  ForEachField(object, "Pods", [&](std::string_view key, ondemand::value value) {
    if (KeyIs(key, "uid")) uid = TakeOptionalName(value, "Pods.UID");
  });
  return uid;
}

Victims TakeVictims(ondemand::value value, VictimKind kind, std::size_t& budget) {
  Victims victims;
  if (IsNull(value, "victims")) return victims;
  ForEachField(Take<ondemand::object>(value.get_object(), "victims"), "victims",
               [&](std::string_view key, ondemand::value field) {
                 if (KeyIs(key, "numpdbviolations")) {
                   if (IsNull(field, "NumPDBViolations")) return;
                   victims.num_pdb_violations =
                       Take<std::int64_t>(field.get_int64(), "NumPDBViolations");
                 } else if (KeyIs(key, "pods")) {
                   victims.pod_uids.clear();
                   if (IsNull(field, "Pods")) return;
                   ForEachElement(Take<ondemand::array>(field.get_array(), "Pods"), "Pods",
                                  [&](ondemand::value pod) {
                                    if (IsNull(pod, "Pods")) return;
                                    if (budget-- == 0) Fail("Pods: more than 200,000 victims");
                                    const auto uid = TakeVictimUid(pod, kind);
                                    if (!uid.empty()) victims.pod_uids.emplace_back(uid);
                                  });
                 }
               });
  return victims;
}

using VictimMap = std::map<std::string, Victims, std::less<>>;

VictimMap TakeVictimMap(ondemand::value value, VictimKind kind, std::string_view what) {
  VictimMap map;
  if (IsNull(value, what)) return map;
  std::size_t budget = kMaxVictims;
  ForEachField(
      Take<ondemand::object>(value.get_object(), what), what,
      [&](std::string_view node, ondemand::value victims) {
        if (node.empty() || node.size() > kMaxNameBytes) {
          Fail(std::string(what) + ": a node name of " + std::to_string(node.size()) + " bytes");
        }
        if (map.size() == kMaxNodes) Fail(std::string(what) + ": more than 200,000 nodes");
        map.insert_or_assign(std::string(node), TakeVictims(victims, kind, budget));
      });
  return map;
}

}  // namespace

struct Decoder::Parser {
  std::unique_ptr<ondemand::parser> parser = std::make_unique<ondemand::parser>();
  std::size_t node_count = 0;  ///< Of the last request: the next one is likely to be as large.

  /// Visits the fields of the body's root object; DecodeError becomes the error, `type` its prefix.
  template <typename T, typename Visit>
  std::expected<T, std::string> Run(PaddedBody body, std::string_view type, Visit visit) try {
    auto document = Take<ondemand::document>(
        parser->iterate(body.data, body.size, body.size + kBodyPadding), "not JSON");
    T args;
    visit(Take<ondemand::object>(document.get_object(), "not a JSON object"), args);
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
      Fail("something follows the JSON object");
    }
    return args;
  } catch (const DecodeError& error) {
    return std::unexpected(std::string(type) + ": " + error.text);
  }
};

Decoder::Decoder() : parser_(std::make_unique<Parser>()) {}
Decoder::~Decoder() = default;

void Decoder::ReleaseLarge() {
  if (parser_->parser->capacity() > kKeepBuffersUpTo) {
    parser_->parser = std::make_unique<ondemand::parser>();
  }
}

std::expected<ExtenderArgs, std::string> Decoder::DecodeExtenderArgs(PaddedBody body) {
  return parser_->Run<ExtenderArgs>(
      body, "ExtenderArgs", [this](ondemand::object root, ExtenderArgs& args) {
        args.node_names.reserve(parser_->node_count);
        bool has_pod = false;
        bool has_names = false;
        bool has_nodes = false;
        ForEachField(root, "ExtenderArgs", [&](std::string_view key, ondemand::value value) {
          if (KeyIs(key, "pod")) {
            has_pod = !IsNull(value, "Pod");
            if (!has_pod) return;
            const auto pod = TakePod(value, &args.pod_json);
            args.pod_name = pod.name;
            args.pod_namespace = pod.ns;
            args.pod_uid = pod.uid;
          } else if (KeyIs(key, "nodenames")) {
            has_names = !IsNull(value, "NodeNames");
            if (has_names) TakeNodeNames(value, args.node_names);
          } else if (KeyIs(key, "nodes")) {
            has_nodes = !IsNull(value, "Nodes");
          }
        });
        if (!has_pod) Fail("Pod is missing");
        if (!has_names && has_nodes) {
          Fail(
              "Nodes were sent instead of NodeNames: Berth's entry under `extenders` in the "
              "scheduler's configuration needs `nodeCacheCapable: true`");
        }
        if (!has_names) Fail("NodeNames is missing");
        parser_->node_count = args.node_names.size();
      });
}

std::expected<BindArgs, std::string> Decoder::DecodeBindArgs(PaddedBody body) {
  return parser_->Run<BindArgs>(
      body, "ExtenderBindingArgs", [](ondemand::object root, BindArgs& args) {
        const auto take = [](ondemand::value value, std::string_view what) {
          return TakeOptionalName(value, what);
        };
        ForEachField(root, "ExtenderBindingArgs", [&](std::string_view key, ondemand::value value) {
          if (KeyIs(key, "podname")) args.pod_name = take(value, "PodName");
          if (KeyIs(key, "podnamespace")) args.pod_namespace = take(value, "PodNamespace");
          if (KeyIs(key, "poduid")) args.pod_uid = take(value, "PodUID");
          if (KeyIs(key, "node")) args.node = take(value, "Node");
        });
        if (args.pod_name.empty()) Fail("PodName is missing");
        if (args.pod_namespace.empty()) Fail("PodNamespace is missing");
        if (args.pod_uid.empty()) Fail("PodUID is missing");
        if (args.node.empty()) Fail("Node is missing");
      });
}

std::expected<PreemptionArgs, std::string> Decoder::DecodePreemptionArgs(PaddedBody body) {
  return parser_->Run<PreemptionArgs>(
      body, "ExtenderPreemptionArgs", [](ondemand::object root, PreemptionArgs& args) {
        bool has_pod = false;
        VictimMap full;
        ForEachField(root, "ExtenderPreemptionArgs",
                     [&](std::string_view key, ondemand::value value) {
                       if (KeyIs(key, "pod")) {
                         has_pod = !IsNull(value, "Pod");
                         if (!has_pod) return;
                         const auto pod = TakePod(value, nullptr);
                         args.pod_name = pod.name;
                         args.pod_namespace = pod.ns;
                         args.pod_uid = pod.uid;
                       } else if (KeyIs(key, "nodenametometavictims")) {
                         args.node_to_victims =
                             TakeVictimMap(value, VictimKind::kMeta, "NodeNameToMetaVictims");
                       } else if (KeyIs(key, "nodenametovictims")) {
                         full = TakeVictimMap(value, VictimKind::kFullPod, "NodeNameToVictims");
                       }
                     });
        if (!has_pod) Fail("Pod is missing");
        args.node_to_victims.merge(full);  // A node named in both is taken from the meta map.
      });
}

}  // namespace berth::server
