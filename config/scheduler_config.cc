#include "config/scheduler_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <ranges>
#include <utility>

#include "config/scalars.h"
#include "config/strict_reader.h"

namespace berth::config {
namespace {

constexpr std::string_view kSchedulerApiVersion = "kubescheduler.config.k8s.io/v1";
constexpr std::string_view kSchedulerKind = "KubeSchedulerConfiguration";

/// kube-scheduler's default if the entry has no httpTimeout.
constexpr std::chrono::milliseconds kDefaultHttpTimeout = std::chrono::seconds{5};
/// Time for the answer to arrive after a bind that was parked for its whole time.
constexpr std::chrono::milliseconds kTimeoutMargin = std::chrono::seconds{5};
/// kube-scheduler's own default scores can sum to 1200, an extender's to 100 x weight.
constexpr std::int64_t kDefaultScoresWeight = 12;

struct Verb {
  std::string_view key;
  std::string_view name;
};
constexpr Verb kPrioritize{"prioritizeVerb", "prioritize"};
constexpr std::array<Verb, 3> kNeededVerbs{
    {{"filterVerb", "filter"}, {"bindVerb", "bind"}, {"preemptVerb", "preempt"}}};

/// The text under `key` of a mapping; empty if there is none.
std::string_view TextOf(const YamlNode& node, std::string_view key) {
  const YamlNode* value = node.Find(key);
  return value != nullptr && value->kind == YamlKind::kScalar ? std::string_view(value->text) : "";
}

/// The mappings in the list under `key` of a mapping, with their positions.
std::vector<Located> MappingsOf(const Located& at, std::string_view key) {
  std::vector<Located> mappings;
  const YamlNode* list = at.node->Find(key);
  if (list == nullptr || list->kind != YamlKind::kSequence) return mappings;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    if (list->items[i].kind != YamlKind::kMapping) continue;
    mappings.push_back({.node = &list->items[i], .path = JoinPath(JoinPath(at.path, key), i)});
  }
  return mappings;
}

const Located* ManagedEntry(const std::vector<Located>& managed, std::string_view resource) {
  const auto found = std::ranges::find_if(
      managed, [&](const Located& m) { return TextOf(*m.node, "name") == resource; });
  return found == managed.end() ? nullptr : &*found;
}

bool ManagesDeviceOf(const Located& extender, const PolicyConfiguration& policy) {
  const std::vector<Located> managed = MappingsOf(extender, "managedResources");
  return std::ranges::any_of(policy.devices, [&](const DeviceResource& device) {
    return ManagedEntry(managed, device.name) != nullptr;
  });
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// The host of `scheme://[user@]host[:port][/path]`.
std::string_view HostOf(std::string_view url) {
  std::string_view host = url.substr(url.find("://") + 3);
  host = host.substr(0, host.find_first_of("/?#"));
  if (const auto user = host.rfind('@'); user != std::string_view::npos)
    host.remove_prefix(user + 1);
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

class Checker {
 public:
  Checker(std::string_view file_name, const PolicyConfiguration& policy)
      : file_name_(file_name), policy_(policy) {}

  void Run(const YamlNode& document) {
    const Located root{.node = &document, .path = ""};
    CheckSampling(root);
    CheckProfiles(root);
    const std::vector<Located> extenders = MappingsOf(root, "extenders");
    const Located* ours = FindOurs(extenders);
    if (ours == nullptr) {
      Error(root, "extenders",
            fmt::format(
                "no entry manages a device of the policy ({}) or has a bindVerb: "
                "kube-scheduler does not call Berth",
                fmt::join(policy_.devices | std::views::transform(&DeviceResource::name), ", ")));
      return;
    }
    CheckOthers(extenders, *ours);
    CheckVerbs(*ours);
    CheckFlags(*ours);
    CheckTimeout(*ours);
    CheckResources(*ours);
    CheckUrl(*ours);
  }

  /// A file that cannot be read or is not a kube-scheduler configuration.
  void Fail(Diagnostic where) { findings_.push_back({Severity::kError, std::move(where)}); }

  void CheckApiVersion(const YamlNode& document) {
    if (TextOf(document, "apiVersion") == kSchedulerApiVersion) return;
    Error({.node = &document, .path = ""}, "apiVersion",
          fmt::format("must be {}, is {}", kSchedulerApiVersion,
                      Quote(TextOf(document, "apiVersion"))));
  }

  std::vector<Finding> Take() && {
    std::ranges::stable_sort(findings_, {}, [](const Finding& finding) {
      return std::pair{finding.where.line, finding.where.column};
    });
    return std::move(findings_);
  }

 private:
  /// At the value of `key` in `at`, or at `at` where there is none.
  void Add(Severity severity, const Located& at, std::string_view key, std::string message) {
    const YamlNode* value = key.empty() ? nullptr : at.node->Find(key);
    const YamlNode& place = value != nullptr ? *value : *at.node;
    findings_.push_back({severity,
                         {.file = file_name_,
                          .line = place.line,
                          .column = place.column,
                          .path = key.empty() ? at.path : JoinPath(at.path, key),
                          .message = std::move(message)}});
  }
  void Error(const Located& at, std::string_view key, std::string message) {
    Add(Severity::kError, at, key, std::move(message));
  }
  void Warn(const Located& at, std::string_view key, std::string message) {
    Add(Severity::kWarning, at, key, std::move(message));
  }

  const Located* FindOurs(const std::vector<Located>& extenders) const {
    auto found = std::ranges::find_if(
        extenders, [&](const Located& e) { return ManagesDeviceOf(e, policy_); });
    if (found == extenders.end()) {
      found = std::ranges::find_if(
          extenders, [](const Located& e) { return !TextOf(*e.node, "bindVerb").empty(); });
    }
    return found == extenders.end() ? nullptr : &*found;
  }

  void CheckOthers(const std::vector<Located>& extenders, const Located& ours) {
    for (const Located& other : extenders) {
      if (&other == &ours) continue;
      if (!TextOf(*other.node, "bindVerb").empty() && !TextOf(*ours.node, "bindVerb").empty()) {
        Error(
            other, "bindVerb",
            fmt::format("kube-scheduler allows one bindVerb in all, Berth's is in {}", ours.path));
      }
      for (const Located& managed : MappingsOf(other, "managedResources")) {
        const std::string_view name = TextOf(*managed.node, "name");
        if (ManagedEntry(MappingsOf(ours, "managedResources"), name) == nullptr) continue;
        Error(managed, "name",
              fmt::format("{} is managed by {} too: kube-scheduler allows one", name, ours.path));
      }
    }
  }

  void CheckVerbs(const Located& ours) {
    for (const Verb& verb : kNeededVerbs) {
      CheckVerb(ours, verb, Severity::kError, "missing: Berth needs this verb");
    }
    const bool scored = policy_.placement.max_nodes_returned > 1;
    CheckVerb(ours, kPrioritize, scored ? Severity::kError : Severity::kWarning,
              scored ? fmt::format("missing: with placement.maxNodesReturned {} kube-scheduler "
                                   "would choose among Berth's nodes by itself",
                                   policy_.placement.max_nodes_returned)
                     : "missing: needed as soon as placement.maxNodesReturned is above 1");
    if (!TextOf(*ours.node, kPrioritize.key).empty()) CheckWeight(ours);
  }

  void CheckVerb(const Located& ours, const Verb& verb, Severity severity, std::string missing) {
    const std::string_view text = TextOf(*ours.node, verb.key);
    if (text.empty()) return Add(severity, ours, verb.key, std::move(missing));
    // A proxy may put a path before it.
    const std::size_t slash = text.rfind('/');
    const std::string_view last = slash == std::string_view::npos ? text : text.substr(slash + 1);
    if (last == verb.name) return;
    Error(ours, verb.key, fmt::format("must be {}, is {}", verb.name, Quote(text)));
  }

  void CheckWeight(const Located& ours) {
    const std::int64_t weight = ParseInteger(TextOf(*ours.node, "weight")).value_or(0);
    if (weight <= 0) {
      Error(ours, "weight", "must be above 0 with a prioritizeVerb, or kube-scheduler refuses it");
    } else if (weight <= kDefaultScoresWeight) {
      Warn(ours, "weight",
           fmt::format("{} lets kube-scheduler's own scores outvote Berth's: more than {} does not",
                       weight, kDefaultScoresWeight));
    }
  }

  void CheckFlags(const Located& ours) {
    if (TextOf(*ours.node, "nodeCacheCapable") != "true") {
      Error(ours, "nodeCacheCapable", "must be true: Berth has its own view of the nodes");
    }
    if (TextOf(*ours.node, "ignorable") == "true") {
      Error(ours, "ignorable",
            "must be false: while Berth is away, pods would start past their quota and gang");
    }
  }

  void CheckTimeout(const Located& ours) {
    constexpr std::string_view kKey = "httpTimeout";
    const bool given = ours.node->Find(kKey) != nullptr;
    const auto timeout =
        given ? ParseDuration(TextOf(*ours.node, kKey))
              : std::expected<std::chrono::milliseconds, std::string>(kDefaultHttpTimeout);
    if (!timeout) return Error(ours, kKey, timeout.error());
    const std::chrono::milliseconds bind = policy_.gang.bind_timeout;
    const std::string shown = FormatDuration(*timeout) + (given ? "" : " (the default)");
    if (*timeout <= bind) {
      Error(ours, kKey,
            fmt::format("{} must be above the policy's gang.bindTimeout, {}: kube-scheduler would "
                        "give up binds that still wait for their gang",
                        shown, FormatDuration(bind)));
    } else if (*timeout < bind + kTimeoutMargin) {
      Warn(ours, kKey,
           fmt::format("{} leaves less than {} above the policy's gang.bindTimeout, {}", shown,
                       FormatDuration(kTimeoutMargin), FormatDuration(bind)));
    }
  }

  void CheckResources(const Located& ours) {
    constexpr std::string_view kKey = "managedResources";
    const std::vector<Located> managed = MappingsOf(ours, kKey);
    if (managed.empty()) {
      return Warn(ours, kKey, "none: kube-scheduler asks Berth about every pod, devices or not");
    }
    for (const DeviceResource& device : policy_.devices) {
      const Located* entry = ManagedEntry(managed, device.name);
      if (entry == nullptr) {
        Error(ours, kKey, fmt::format("{} is missing, a device of the policy", device.name));
      } else if (TextOf(*entry->node, "ignoredByScheduler") == "true") {
        Error(*entry, "ignoredByScheduler",
              fmt::format("must be false: kube-scheduler must count {} too, or it cannot preempt "
                          "for it",
                          device.name));
      }
    }
  }

  void CheckUrl(const Located& ours) {
    constexpr std::string_view kKey = "urlPrefix";
    const std::string_view url = TextOf(*ours.node, kKey);
    const bool plain = url.starts_with("http://");
    if (!plain && !url.starts_with("https://")) {
      return Error(ours, kKey, "must be an http:// or https:// address");
    }
    if (plain && !IsLoopback(HostOf(url))) {
      Warn(ours, kKey,
           "plain http off loopback: whoever reaches the port can bind pods; use https");
    }
  }

  void CheckSampling(const Located& root) {
    constexpr std::string_view kKey = "percentageOfNodesToScore";
    const auto check = [&](const Located& at) {
      if (TextOf(*at.node, kKey) == "100") return;
      Warn(at, kKey,
           "should be 100: else kube-scheduler offers Berth only a sample of more than 100 nodes");
    };
    bool inherited = false;
    for (const Located& profile : MappingsOf(root, "profiles")) {
      if (profile.node->Find(kKey) != nullptr) {
        check(profile);
      } else {
        inherited = true;
      }
    }
    if (inherited || MappingsOf(root, "profiles").empty()) check(root);
  }

  void CheckProfiles(const Located& root) {
    const std::vector<Located> profiles = MappingsOf(root, "profiles");
    const auto planned = [&](std::string_view name) {
      return std::ranges::find(policy_.scheduler_names, name) != policy_.scheduler_names.end();
    };
    const auto name_of = [](const Located& profile) {
      const std::string_view name = TextOf(*profile.node, "schedulerName");
      return name.empty() ? std::string_view("default-scheduler") : name;
    };
    const bool any = profiles.empty() ? planned("default-scheduler")
                                      : std::ranges::any_of(profiles, planned, name_of);
    if (any) return;
    Warn(root, "profiles",
         fmt::format("none is in the policy's schedulerNames ({}): Berth would "
                     "plan none of its pods",
                     fmt::join(policy_.scheduler_names, ", ")));
  }

  std::string file_name_;
  const PolicyConfiguration& policy_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string Finding::ToString() const {
  const std::string_view word = severity == Severity::kError ? "error" : "warning";
  Diagnostic shown = where;
  shown.path = where.path.empty() ? std::string(word) : fmt::format("{}: {}", word, where.path);
  return shown.ToString();
}

std::vector<Finding> CheckSchedulerConfig(std::string_view yaml, std::string_view file_name,
                                          const PolicyConfiguration& policy) {
  Checker checker(file_name, policy);
  const auto documents = ReadYaml(yaml, file_name);
  if (!documents) {
    for (const Diagnostic& error : documents.error()) checker.Fail(error);
    return std::move(checker).Take();
  }
  const auto document = std::ranges::find_if(
      *documents, [](const YamlNode& d) { return TextOf(d, "kind") == kSchedulerKind; });
  if (document == documents->end()) {
    checker.Fail({.file = std::string(file_name),
                  .path = "kind",
                  .message = fmt::format("no document of kind {} here", kSchedulerKind)});
    return std::move(checker).Take();
  }
  checker.CheckApiVersion(*document);
  checker.Run(*document);
  return std::move(checker).Take();
}

}  // namespace berth::config
