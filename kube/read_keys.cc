// Every label and annotation that Berth reads by its name. Each row is kept, whatever else an
// object carries; no other annotation is kept.
#include <algorithm>
#include <array>
#include <functional>

#include "kube/decode.h"
#include "kube/decode_reader.h"
#include "kube/device_notes.h"

namespace berth::kube {
namespace {

using internal::kMaxText;

constexpr std::size_t kPlanBytes = std::size_t{32} * 1024;
constexpr std::size_t kNodeNoteBytes = std::size_t{256} * 1024;  ///< The API server's own limit.

struct ReadKey {
  std::string_view name;
  std::size_t annotation = kMaxText;  ///< The most bytes of an annotation; 0: read as a label only.
  Author author = Author::kUser;      ///< kAdmin: the annotation is read on nodes only.
};

constexpr ReadKey Label(std::string_view name) { return {.name = name, .annotation = 0}; }
constexpr ReadKey OnNodes(std::string_view name) {
  return {.name = name, .annotation = kNodeNoteBytes, .author = Author::kAdmin};
}

constexpr auto kReadKeys = [] {
  std::array keys = std::to_array<ReadKey>({
      Label("apps.kubernetes.io/pod-index"),
      {.name = "batch.kubernetes.io/job-completion-index"},
      {.name = "berth.dev/checkpoint-time"},
      {.name = "berth.dev/class"},
      OnNodes(kDeviceSelectionAnnotation),
      OnNodes(kDeviceTopologyAnnotation),
      {.name = kDevicesAnnotation, .annotation = kMaxDeviceNote},
      {.name = "berth.dev/evicted-for"},
      {.name = "berth.dev/eviction-time"},
      {.name = "berth.dev/expected-duration"},
      {.name = "berth.dev/gang"},
      {.name = "berth.dev/gang-min-member"},
      {.name = "berth.dev/gang-size"},
      {.name = "berth.dev/gpu-milli"},
      Label("berth.dev/leader"),
      {.name = "berth.dev/leading"},
      {.name = "berth.dev/plan", .annotation = kPlanBytes},
      {.name = "berth.dev/preemptible"},
      {.name = "berth.dev/queue"},
      Label("berth.dev/suspended"),
      {.name = "berth.dev/topology-preferred"},
      {.name = "berth.dev/topology-required"},
      Label("berth.dev/user"),
      {.name = "berth.dev/whole-node"},
      {.name = "gang.scheduling.koordinator.sh/min-available"},
      {.name = "gang.scheduling.koordinator.sh/name"},
      {.name = "gang.scheduling.koordinator.sh/network-topology-index"},
      {.name = "gang.scheduling.koordinator.sh/network-topology-spec"},
      {.name = "gang.scheduling.koordinator.sh/total-number"},
      OnNodes(kHamiRegisterAnnotation),
      OnNodes(kHamiScoreAnnotation),
      Label("jobset.sigs.k8s.io/job-global-index"),
      Label("jobset.sigs.k8s.io/job-index"),
      Label("jobset.sigs.k8s.io/jobset-name"),
      {.name = "kai.scheduler/batch-min-member"},
      {.name = "kai.scheduler/queue"},
      {.name = "kai.scheduler/topology-preferred-placement"},
      {.name = "kai.scheduler/topology-required-placement"},
      {.name = "kueue.x-k8s.io/pod-group-name"},
      {.name = "kueue.x-k8s.io/pod-group-pod-index"},
      {.name = "kueue.x-k8s.io/pod-group-total-count"},
      {.name = "kueue.x-k8s.io/podset-preferred-topology"},
      {.name = "kueue.x-k8s.io/podset-required-topology"},
      {.name = "kueue.x-k8s.io/queue-name"},
      Label("leaderworkerset.sigs.k8s.io/group-index"),
      {.name = "leaderworkerset.sigs.k8s.io/worker-index"},
      Label("nvidia.com/gpu.count"),
      Label("nvidia.com/gpu.machine"),
      Label("nvidia.com/gpu.product"),
      Label("nvidia.com/gpu.sharing-strategy"),
      {.name = "pod-group-name"},
      {.name = "pod-group.scheduling.sigs.k8s.io"},
      {.name = "pod-group.scheduling.sigs.k8s.io/min-available"},
      {.name = "pod-group.scheduling.sigs.k8s.io/name"},
      Label("quota.scheduling.koordinator.sh/name"),
      Label("runai/queue"),
      {.name = "scheduling.k8s.io/group-name"},
      {.name = "scheduling.volcano.sh/group-min-member"},
      {.name = "scheduling.volcano.sh/group-name"},
      {.name = "scheduling.volcano.sh/queue-name"},
      {.name = "scheduling.x-k8s.io/pod-group"},
      {.name = "training.kubeflow.org/replica-index"},
      {.name = "volcano.sh/queue-name"},
      {.name = "volcano.sh/task-index"},
  });
  std::ranges::sort(keys, {}, &ReadKey::name);
  return keys;
}();

const ReadKey* Find(std::string_view name) {
  const auto it = std::ranges::lower_bound(kReadKeys, name, {}, &ReadKey::name);
  return it == kReadKeys.end() || it->name != name ? nullptr : it;
}

}  // namespace

std::size_t AnnotationLimit(std::string_view key, Author author) {
  const ReadKey* known = Find(key);
  if (known == nullptr) return 0;
  return known->author == Author::kAdmin && author != Author::kAdmin ? 0 : known->annotation;
}

bool IsReadLabel(std::string_view key) { return Find(key) != nullptr; }

}  // namespace berth::kube
