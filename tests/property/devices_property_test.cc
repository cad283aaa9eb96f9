// Device indices over any order of events: no device is assigned twice (I1), and the ledger equals
// what the objects and plans imply (I7).
#include <rapidcheck.h>

#include <bit>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kube/device_notes.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth {
namespace {

using cluster::Charge;
using cluster::DeviceTrack;
using testing::MakeNode;
using testing::MakePod;
using topology::DeviceMask;

/// Two nodes and eight pods; any event can happen to any of them.
class Ledger {
 public:
  void Step(int number) {
    const int what = number % 8;
    const std::string name = "p" + std::to_string(number / 8 % 8);
    const int rest = number / 64;
    if (what == 0) {
      PutNode(rest);
    } else if (what == 1) {
      store_.DeletePod("uid-" + name);
      pods_.erase(name);
    } else if (what <= 4) {
      Plan(name, rest);
    } else if (what <= 6) {
      Bind(name, rest);
    } else {
      Forge(name, rest);
    }
    store_.Refresh();
  }

  void CheckDevices() const {
    for (const auto& node : store_.nodes()) {
      if (node->track != DeviceTrack::kKept) {
        RC_ASSERT(node->devices.size() == 0);
        for (const cluster::PodInfo* pod : node->pods) RC_ASSERT(store_.DevicesNote(*pod).empty());
        continue;
      }
      unsigned taken = 0;
      for (const cluster::PodInfo* pod : node->pods) {
        const int gpus = static_cast<int>(pod->shape->device_amount / 1000);
        RC_ASSERT((taken & pod->devices) == 0U);
        RC_ASSERT(std::popcount(pod->devices) == gpus ||
                  (pod->devices == 0 && pod->charge == Charge::kPlanned));
        if (pod->bound()) RC_ASSERT(pod->devices == pod->said_devices);
        taken |= pod->devices;
      }
      const unsigned all = (1U << static_cast<unsigned>(node->devices.size())) - 1U;
      RC_ASSERT((taken & ~all) == 0U);
      RC_ASSERT(node->devices.AtLeast(1000) == (all & ~taken));
    }
  }

  /// The ledger of a new store that gets the bound pods and the plans at once.
  std::string Rebuilt() const {
    cluster::Store fresh(store_.policy());
    for (const auto& [name, node] : nodes_) fresh.UpsertNode(node);
    for (const auto& [name, pod] : pods_) fresh.UpsertPod(pod);
    for (const bool chosen : {true, false}) {
      for (const auto& [name, pod] : pods_) {
        const cluster::PodInfo& held = *store_.FindPod(pod.meta.uid);
        if (held.bound() || held.charge == Charge::kNone) continue;
        if ((held.devices != 0) != chosen) continue;
        const cluster::PodInfo& mine = *fresh.FindPod(pod.meta.uid);
        fresh.SetTerms(mine, held.fixed, mine.queue, mine.non_preemptible, mine.user);
        fresh.SetCharge(mine, fresh.FindNode(store_.node(held.node).name), held.charge,
                        held.devices);
      }
    }
    fresh.Refresh();
    return fresh.LedgerString();
  }
  std::string Text() const { return store_.LedgerString(); }

 private:
  static std::string NodeName(int number) { return number % 2 == 0 ? "n0" : "n1"; }

  void PutNode(int number) {
    const std::string name = NodeName(number);
    const int kind = number / 2 % 6;
    kube::Node node = MakeNode(name).Gpu(kind == 0 ? 6 : 8).Cpu(64);
    if (kind < 3) node.meta.labels["nvidia.com/gpu.machine"] = "DGXH100";
    if (kind == 3) node.meta.annotations["berth.dev/device-topology"] = R"({"count":8})";
    if (kind != 5) node.meta.annotations["berth.dev/device-selection"] = "annotation";
    nodes_.insert_or_assign(name, node);
    store_.UpsertNode(node);
  }

  static kube::Pod Make(const std::string& name) {
    return MakePod(name).Gpu(1 + (name[1] - '0') % 4);
  }

  /// Plans as the planner does: only if there is room.
  void Plan(const std::string& name, int number) {
    const auto node = store_.FindNode(NodeName(number));
    if (node == cluster::kNoNode || !store_.node(node).present || pods_.contains(name)) return;
    const kube::Pod pod = Make(name);
    pods_.insert_or_assign(name, pod);
    const cluster::PodInfo& info = *store_.UpsertPod(pod);
    if (store_.node(node).free(store_.device_ids().front()) < info.shape->device_amount) return;
    store_.SetCharge(info, node, Charge::kPlanned);
  }

  /// Sends a planned pod's Binding with its devices annotation; it takes effect now or later.
  void Bind(const std::string& name, int number) {
    const auto it = pods_.find(name);
    const cluster::PodInfo* info = store_.FindPod("uid-" + name);
    if (it == pods_.end() || info == nullptr || info->bound()) return;
    if (info->charge == Charge::kPlanned) {
      store_.SetCharge(*info, info->node, Charge::kBinding);
      notes_[name] = store_.DevicesNote(*info);
      if (number % 2 == 0) return;
    }
    if (info->charge != Charge::kBinding) return;
    it->second.node_name = store_.node(info->node).name;
    if (!notes_[name].empty()) {
      it->second.meta.annotations[std::string(kube::kDevicesAnnotation)] = notes_[name];
    }
    store_.UpsertPod(it->second);
  }

  /// A client overwrites the annotation of a bound pod, or creates a bound one.
  void Forge(const std::string& name, int number) {
    const auto it = pods_.find(name);
    if (it != pods_.end() && it->second.node_name.empty()) return;
    kube::Pod pod = it != pods_.end() ? it->second : Make(name);
    if (it == pods_.end()) pod.node_name = NodeName(number);
    const int mask = number / 2 % 512;
    std::string indices;
    for (int i = 0; i < 9; ++i) {
      if ((mask >> i & 1) == 0) continue;
      indices += (indices.empty() ? "" : ",") + std::to_string(i);
    }
    pod.meta.annotations[std::string(kube::kDevicesAnnotation)] =
        R"({"main":{"nvidia.com/gpu":[)" + indices + "]}}";
    pods_.insert_or_assign(name, pod);
    store_.UpsertPod(pod);
  }

  cluster::Store store_{{}};
  std::map<std::string, kube::Node> nodes_;
  std::map<std::string, kube::Pod> pods_;
  std::map<std::string, std::string> notes_;
};

TEST_CASE("I1 and I7 of single devices", "[property][devices]") {
  REQUIRE(rc::check("no device is given twice; step by step = at once", [] {
    Ledger ledger;
    const auto numbers =
        *rc::gen::container<std::vector<int>>(rc::gen::resize(100, rc::gen::inRange(0, 1 << 20)));
    for (const int number : numbers) {
      ledger.Step(number);
      ledger.CheckDevices();
      RC_ASSERT(ledger.Text() == ledger.Rebuilt());
    }
  }));
}

}  // namespace
}  // namespace berth
