// Part of dialects.h: which dialects are read, whose projects are alive, and the projects' objects.
// What pods and objects say is read in dialects.cc.
#include "cluster/dialects.h"

namespace berth::cluster {
namespace {

using kube::DialectKind;

/// Where a project's own controller runs, as its installation manifests name it.
struct Controller {
  Dialect dialect;
  std::string_view ns;
  std::string_view pod_prefix;
};

constexpr std::array<Controller, 6> kControllers{{
    {Dialect::kKueue, "kueue-system", "kueue-controller-manager-"},
    {Dialect::kVolcano, "volcano-system", "volcano-scheduler-"},
    {Dialect::kKai, "kai-scheduler", "kai-scheduler-"},
    {Dialect::kKai, "kai-scheduler", "scheduler-"},  // before 0.10
    {Dialect::kKoordinator, "koordinator-system", "koord-scheduler-"},
    {Dialect::kSchedulerPlugins, "scheduler-plugins", "scheduler-plugins-scheduler-"},
}};

struct DialectRow {
  std::string_view name;
  config::DialectSwitch config::Dialects::*member;  ///< Null: cannot be switched.
};

// In the order of Dialect.
constexpr std::array<DialectRow, kDialects> kRows{{
    {"berth", nullptr},
    {"inTree", &config::Dialects::in_tree},
    {"kueue", &config::Dialects::kueue},
    {"volcano", &config::Dialects::volcano},
    {"kai", &config::Dialects::kai},
    {"koordinator", &config::Dialects::koordinator},
    {"schedulerPlugins", &config::Dialects::scheduler_plugins},
}};

const DialectRow& RowOf(Dialect dialect) { return kRows[static_cast<std::size_t>(dialect)]; }

}  // namespace

std::string_view Name(Dialect dialect) { return RowOf(dialect).name; }

bool IsRead(const config::Dialects& dialects, Dialect dialect) {
  const auto member = RowOf(dialect).member;
  return member == nullptr || dialects.*member != config::DialectSwitch::kOff;
}

bool DialectObjects::Upsert(kube::DialectObject object) {
  auto& uid = uids_[{object.kind, object.ns, object.name}];
  const bool renamed = uid != object.uid;
  uid = object.uid;
  auto& known = by_uid_[object.uid];
  if (!renamed && known == object) return false;
  known = std::move(object);
  return true;
}

std::optional<kube::DialectObject> DialectObjects::Remove(std::string_view uid) {
  const auto it = by_uid_.find(uid);
  if (it == by_uid_.end()) return std::nullopt;
  kube::DialectObject object = std::move(it->second);
  by_uid_.erase(it);
  const auto named = uids_.find({object.kind, object.ns, object.name});
  if (named != uids_.end() && named->second == object.uid) uids_.erase(named);
  return object;
}

const kube::DialectObject* DialectObjects::Find(DialectKind kind, std::string_view ns,
                                                std::string_view name) const {
  const auto it = uids_.find({kind, std::string(ns), std::string(name)});
  return it == uids_.end() ? nullptr : &by_uid_.find(it->second)->second;
}

bool PeersAlive::Count(const kube::Pod& pod, int change) {
  for (const Controller& controller : kControllers) {
    if (pod.meta.ns != controller.ns || !pod.meta.name.starts_with(controller.pod_prefix)) continue;
    int& pods = pods_[static_cast<std::size_t>(controller.dialect)];
    const bool was = pods > 0;
    pods += change;
    return was != (pods > 0);
  }
  return false;
}

config::Dialects PeersAlive::Decide(config::Dialects dialects) const {
  for (std::size_t i = 0; i < kDialects; ++i) {
    const auto member = kRows[i].member;
    if (member == nullptr || dialects.*member != config::DialectSwitch::kAuto) continue;
    dialects.*member = pods_[i] > 0 ? config::DialectSwitch::kOff : config::DialectSwitch::kOn;
  }
  return dialects;
}

}  // namespace berth::cluster
