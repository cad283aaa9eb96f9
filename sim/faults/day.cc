#include "sim/faults/day.h"

#include <fmt/format.h>

#include "kube/device_notes.h"
#include "sim/faults/kinds_of_work.h"
#include "sim/faults/mixed.h"

namespace berth::sim {
namespace {

constexpr Duration kTrouble = 120'000;

kube::Node MakeNode(int index, Random& random) {
  kube::Node node;
  node.meta.name = fmt::format("n{:02}", index);
  node.meta.uid = "node-" + node.meta.name;
  node.meta.labels["kubernetes.io/hostname"] = node.meta.name;
  node.meta.labels["cloud.provider.com/topology-block"] = "b0";
  node.meta.labels["cloud.provider.com/topology-rack"] = fmt::format("r{}", index / 3);
  static constexpr std::array<std::int64_t, 4> kGpus{8, 8, 4, 0};
  const std::int64_t gpus = index == 0 ? 8 : kGpus[static_cast<std::size_t>(random.Between(0, 3))];
  node.allocatable = {{"cpu", random.Between(2, 8) * 8'000},
                      {"memory", 256LL << 30U},
                      {"pods", random.Percent(20) ? 6 : 110}};
  if (gpus > 0) node.allocatable[kGpu] = gpus * 1'000;
  // Some nodes track their devices individually.
  if (index % 3 == 1) {
    if (gpus == 8) node.meta.labels["nvidia.com/gpu.machine"] = "DGXH100";
    node.meta.annotations[std::string(kube::kDeviceSelectionAnnotation)] =
        kube::kSelectByAnnotation;
  }
  return node;
}

config::PolicyConfiguration DrawPolicy(Random& random) {
  config::PolicyConfiguration policy;
  policy.gang.bind_timeout = std::chrono::milliseconds(random.Between(3, 25) * 1'000);
  // A plan that expires before its barrier does is refused (config/decode.h).
  policy.gang.plan_timeout = std::max<std::chrono::milliseconds>(
      std::chrono::milliseconds(random.Between(10, 60) * 1'000), policy.gang.bind_timeout);
  if (random.Percent(30)) policy.gang.max_standing = static_cast<int>(random.Between(1, 4));
  const auto queue = [&](const char* name, std::int64_t gpus) {
    config::Queue q{.name = name, .namespaces = std::vector<std::string>{"*"}};
    if (gpus > 0) q.limit[kGpu] = gpus * 1'000;
    return q;
  };
  policy.queues = {queue("a", random.Between(8, 24)), queue("b", random.Between(4, 16)),
                   queue("default", 0)};
  return policy;
}

Job DrawJob(int index, int room, TimePoint wave, Random& random) {
  static constexpr std::array<int, 5> kGpus{1, 1, 2, 4, 8};
  Job job;
  job.at = wave + random.Between(0, 5'000);
  job.lasts = random.Between(5, 90) * 1'000;
  job.gpus = kGpus[static_cast<std::size_t>(random.Between(0, 4))];
  job.cpus = static_cast<int>(random.Between(0, 6));
  job.gated = random.Percent(60);
  job.replaces = random.Percent(50);
  job.priority = static_cast<std::int32_t>(random.Between(0, 2)) * 10;
  const std::int64_t queue = random.Between(0, 3);
  if (queue < 2) job.queue = queue == 0 ? "a" : "b";
  if (random.Percent(55)) {
    job.name = fmt::format("g{}", index);
    job.gang = true;
    job.is_set = job.replaces && index % 3 == 0;
    job.size = static_cast<int>(random.Between(2, std::clamp(room, 2, 7)));
    job.min = random.Percent(60) ? job.size : static_cast<int>(random.Between(1, job.size));
    job.launchers = random.Percent(25) ? 1 : 0;
    job.min = std::max(job.min, 1 + job.launchers);
    job.stagger = random.Percent(50) ? 0 : random.Between(1, 3'000);
    if (random.Percent(15)) job.topology_required = "rack";
    if (random.Percent(15)) job.topology_preferred = "rack";
  } else {
    job.name = fmt::format("s{}", index);
    if (random.Percent(20)) job.gpus = 0;
    if (job.gpus > 0 && random.Percent(15)) job.whole_node = true;
  }
  return job;
}

/// Describes the properties that few jobs have.
std::string Corners(const Job& job) {
  static constexpr std::array<const char*, 4> kWishes{"", "apart", "together", "even"};
  const char* const wish = kWishes[static_cast<std::size_t>(job.neighbours)];
  std::string text;
  if (job.ns != "default") text += ", in " + job.ns;
  if (job.scheduler != "default-scheduler") text += ", of " + job.scheduler;
  if (job.memory_gib > 0) text += fmt::format(", {} GiB", job.memory_gib);
  if (!job.pool.empty()) text += ", pool " + job.pool;
  if (job.tolerates) text += ", tolerates";
  if (*wish != 0) text += fmt::format(", {} by {}", wish, job.neighbours_by);
  return text;
}

/// Adds the same properties to the spec.
void AddCorners(const Job& job, kube::PodSpec& spec) {
  if (job.memory_gib > 0) spec.requests["memory"] = std::int64_t{job.memory_gib} << 30U;
  if (!job.pool.empty()) spec.node_selector["pool"] = job.pool;
  if (job.tolerates) {
    spec.tolerations.push_back({.key = "dedicated", .exists = true, .value = {}, .effect = {}});
  }
  if (job.neighbours == Job::Neighbours::kAny) return;
  const kube::LabelSelector same{
      .requirements = {{.key = "app", .op = kube::SelectorOperator::kIn, .values = {job.app}}}};
  kube::PodAffinityTerm term;
  term.label_selector = same;
  term.topology_key = job.neighbours_by;
  if (job.neighbours == Job::Neighbours::kApart) spec.required_pod_anti_affinity = {term};
  if (job.neighbours == Job::Neighbours::kTogether) spec.required_pod_affinity = {term};
  if (job.neighbours == Job::Neighbours::kEven) {
    kube::TopologySpreadConstraint even;
    even.topology_key = job.neighbours_by;
    even.label_selector = same;
    even.honors_taints = job.pool.empty();  // some do, and some do not
    spec.topology_spread = {even};
  }
}

}  // namespace

namespace {

std::string LabelsOf(const Job& job) {
  std::string text;
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) text += fmt::format(", {} {}", what, value);
  };
  add("preemptible", job.preemptible);
  add("class", job.workload_class);
  add("user", job.user);
  add("model", job.model);
  add("volume after", job.volume_after == 0 ? "" : fmt::format("{} s", job.volume_after / 1000));
  add("expects", job.expects == 0 ? "" : fmt::format("{} s", job.expects / 1000));
  return text;
}

}  // namespace

std::string Job::ToString() const {
  return fmt::format(
      "{:>10.3f} {}: {} x {} GPU {} CPU, min {}, launchers {}, prio {}, queue '{}', {} "
      "s{}{}{}{}{}{}{}{}{}",
      static_cast<double>(at % 100'000'000) / 1000.0, name, size, gpus, cpus, min, launchers,
      priority, queue, lasts / 1000, gated ? ", gated" : "", whole_node ? ", whole node" : "",
      is_set     ? ", a JobSet"
      : replaces ? ", replaces"
                 : "",
      topology_required.empty() ? "" : ", in one " + topology_required,
      topology_preferred.empty() ? "" : ", preferably one " + topology_preferred,
      app.empty() ? "" : ", app " + app,
      ends_in == 0 ? "" : fmt::format(", ends in {} s", ends_in / 1000), LabelsOf(*this),
      Corners(*this));
}

kube::NeededObject VolumeOf(const Job& job) {
  return {.kind = kube::NeededKind::kVolumeClaim, .name = "data-" + job.name};
}

kube::PodDisruptionBudget MakeBudget(const Budget& budget) {
  kube::PodDisruptionBudget object;
  object.meta.name = budget.app;
  object.meta.ns = "default";
  object.meta.uid = "budget-" + budget.app;
  object.selector = kube::LabelSelector{
      .requirements = {{.key = "app", .op = kube::SelectorOperator::kIn, .values = {budget.app}}}};
  return object;
}

std::string JobNameOf(const Job& job, int index) {
  return job.is_set ? fmt::format("{}-workers-{}", job.name, index % 2) : job.name;
}

std::vector<std::pair<kube::JobKind, kube::Job>> MakeJobs(const Job& job) {
  std::vector<std::pair<kube::JobKind, kube::Job>> objects;
  if (!job.gang || !job.replaces) return objects;
  const auto add = [&](kube::JobKind kind, const std::string& name, int pods) {
    kube::Job object;
    object.meta.name = name;
    object.meta.ns = job.ns;
    object.meta.uid = fmt::format("job-{}-{}", job.ns, name);
    object.most_pods = pods;
    objects.emplace_back(kind, std::move(object));
  };
  if (!job.is_set) {
    add(kube::JobKind::kJob, job.name, job.size);
    return objects;
  }
  add(kube::JobKind::kJobSet, job.name, job.size);
  for (int i = 0; i < 2; ++i) {
    add(kube::JobKind::kJob, JobNameOf(job, i), (job.size + 1 - i) / 2);
    kube::Job& object = objects.back().second;
    object.meta.labels[std::string(kube::kJobSetLabel)] = job.name;
    object.controller = {.api_version = "jobset.x-k8s.io/v1alpha2",
                         .kind = "JobSet",
                         .name = job.name,
                         .uid = objects.front().second.meta.uid,
                         .controller = true};
  }
  return objects;
}

kube::Pod MakeMember(const Job& job, int index) {
  kube::Pod pod;
  pod.meta.name = job.gang ? fmt::format("{}-{}", job.name, index) : job.name;
  pod.meta.ns = job.ns;
  pod.scheduler_name = job.scheduler;
  pod.priority = job.priority;
  auto spec = std::make_shared<kube::PodSpec>();
  if (job.cpus > 0) spec->requests["cpu"] = job.cpus * 1'000;
  if (index >= job.launchers && job.gpus > 0) {
    spec->requests[kGpu] = job.gpus * 1'000;
    pod.device_requests = {{.container = "main", .resource = kGpu, .amount = job.gpus * 1'000}};
  }
  AddCorners(job, *spec);
  if (!job.model.empty()) spec->node_selector["example.com/model"] = job.model;
  pod.spec = std::move(spec);
  if (job.gang) {
    const std::string name = JobNameOf(job, index);
    pod.controller = {.api_version = job.replaces ? "batch/v1" : "example.com/v1",
                      .kind = "Job",
                      .name = name,
                      .uid = fmt::format("job-{}-{}", job.ns, name),
                      .controller = true};
    if (job.is_set) pod.meta.labels[std::string(kube::kJobSetLabel)] = job.name;
    pod.meta.labels["berth.dev/gang"] = job.name;
    pod.meta.labels["batch.kubernetes.io/job-completion-index"] = std::to_string(index);
    pod.meta.annotations["berth.dev/gang-size"] = std::to_string(job.size);
    pod.meta.annotations["berth.dev/gang-min-member"] = std::to_string(job.min);
  }
  if (!job.queue.empty()) pod.meta.labels["berth.dev/queue"] = job.queue;
  if (!job.preemptible.empty()) pod.meta.labels["berth.dev/preemptible"] = job.preemptible;
  if (!job.workload_class.empty()) pod.meta.labels["berth.dev/class"] = job.workload_class;
  if (!job.user.empty()) pod.meta.labels["berth.dev/user"] = job.user;
  if (job.expects > 0) {
    pod.meta.annotations["berth.dev/expected-duration"] = fmt::format("{}ms", job.expects);
  }
  if (!job.app.empty()) pod.meta.labels["app"] = job.app;
  if (job.whole_node) pod.meta.annotations["berth.dev/whole-node"] = "true";
  if (!job.topology_required.empty()) {
    pod.meta.annotations["berth.dev/topology-required"] = job.topology_required;
  }
  if (!job.topology_preferred.empty()) {
    pod.meta.annotations["berth.dev/topology-preferred"] = job.topology_preferred;
  }
  // A launcher without a gate runs ahead of its gang: documented usage is to gate it.
  if (job.volume_after > 0) pod.needs.push_back(VolumeOf(job));
  if (job.gated || index < job.launchers) pod.scheduling_gates.emplace_back("berth.dev/admission");
  return pod;
}

namespace {

constexpr Duration kDay = 24 * 3'600'000;

kube::Node MakeDayNode(int index) {
  kube::Node node;
  node.meta.name = fmt::format("node-{:05}", index);
  node.meta.uid = "uid-" + node.meta.name;
  node.meta.labels["kubernetes.io/hostname"] = node.meta.name;
  node.meta.labels["cloud.provider.com/topology-block"] = fmt::format("block-{}", index / 256);
  node.meta.labels["cloud.provider.com/topology-rack"] = fmt::format("rack-{}", index / 16);
  node.allocatable = {{"cpu", 128'000}, {"memory", 1024LL << 30U}, {"pods", 110}, {kGpu, 8'000}};
  return node;
}

/// Draws at most `room` pods. At this point its `lasts` is meaningful only relative to other jobs'.
Job DrawDayJob(int index, int room, Random& random) {
  static constexpr std::array<int, 5> kGpus{1, 1, 2, 4, 8};
  Job job;
  job.at = kEpoch + random.Between(0, kDay * 9 / 10);
  job.lasts = static_cast<Duration>(1e6 * random.Exponential(1.0)) + 1;
  job.gpus = kGpus[static_cast<std::size_t>(random.Between(0, 4))];
  job.cpus = job.gpus * 8;
  job.priority = static_cast<std::int32_t>(random.Between(0, 2)) * 10;
  job.queue = random.Percent(50) ? "a" : "b";
  job.gang = room > 1 && random.Percent(8);
  if (job.gang) {
    job.size = std::min(room, 2 << random.Between(0, 4));
    job.min = job.size;
    job.gpus = 8;
    job.cpus = 64;
    if (random.Percent(20)) job.topology_preferred = "rack";
  }
  job.name = fmt::format("{}{}", job.gang ? 'g' : 's', index);
  return job;
}

}  // namespace

Day DrawLargeDay(std::uint64_t seed, const Profile& profile, int nodes, int pods) {
  constexpr double kLoad = 0.8;
  Random random(seed, 0);
  Day day;
  day.seed = seed;
  day.replicas = profile.replicas;
  day.start = kEpoch;
  day.faults_end = kEpoch + kDay;
  for (int i = 0; i < nodes; ++i) day.nodes.push_back(MakeDayNode(i));
  day.policy.queues = {{.name = "a", .namespaces = std::vector<std::string>{"*"}},
                       {.name = "b", .namespaces = std::vector<std::string>{"*"}},
                       {.name = "default", .namespaces = std::vector<std::string>{"*"}}};
  day.policy.queues[0].limit[kGpu] = std::int64_t{nodes} * 8 * 600;  // 60 %
  double asked = 0;
  for (int created = 0, i = 0; created < pods; ++i) {
    day.jobs.push_back(DrawDayJob(i, pods - created, random));
    const Job& job = day.jobs.back();
    created += job.size;
    asked += static_cast<double>(job.lasts) * job.size * job.gpus;
  }
  const double stretch = kLoad * 8.0 * nodes * static_cast<double>(kDay) / asked;
  for (Job& job : day.jobs) {
    job.lasts = 1 + static_cast<Duration>(static_cast<double>(job.lasts) * stretch);
  }
  for (int hour = 0; hour < 24; ++hour) {
    const std::vector<TimePoint> begin{kEpoch + hour * 3'600'000};
    const auto faults = DrawFaults(profile, begin, 3'500'000, random);
    day.faults.insert(day.faults.end(), faults.begin(), faults.end());
  }
  return day;
}

/// Replaces other lone pods by two apps that fill the cluster and whose budgets allow few
/// evictions, and adds later pods of higher priority.
void DrawBudgets(Day& day) {
  Random random(day.seed, 9);
  day.scheduler.preempts = true;
  day.budgets = {{.app = "x", .min_available = static_cast<int>(random.Between(0, 4))},
                 {.app = "y", .min_available = static_cast<int>(random.Between(0, 4))}};
  std::erase_if(day.jobs, [](const Job& job) { return !job.gang; });
  const auto served = static_cast<int>(random.Between(6, 24));
  const auto urgent = static_cast<int>(random.Between(2, 8));
  for (int i = 0; i < served + urgent; ++i) {
    const bool serves = i < served;
    Job job{.name = fmt::format("{}{}", serves ? 's' : 'u', i)};
    job.at = kEpoch + 1'000 + random.Between(0, 15'000) + (serves ? 0 : random.Between(0, 90'000));
    job.lasts = (serves ? random.Between(60, 240) : random.Between(5, 40)) * 1'000;
    job.gpus = 1 << random.Between(serves ? 1 : 2, 3);
    job.gated = random.Percent(30);
    job.priority = static_cast<std::int32_t>(random.Between(0, 2)) * 10 + (serves ? 0 : 20);
    if (random.Percent(serves ? 90 : 30)) job.app = random.Percent(50) ? "x" : "y";
    day.jobs.push_back(job);
  }
  Random times(day.seed, 17);
  for (config::Queue& queue : day.policy.queues) {
    if (!times.Percent(40)) continue;
    queue.min_run_time = std::chrono::milliseconds{times.Between(5'000, 60'000)};
  }
}

/// The queues a, b and default get science and org above them. Some work goes into science itself.
/// On half of the days queues borrow.
void DrawVolumes(Day& day) {
  Random random(day.seed, 23);
  for (Job& job : day.jobs) {
    if (random.Percent(15)) job.volume_after = random.Between(1, 60) * 1'000;
  }
}

void DrawTree(Day& day) {
  Random random(day.seed, 14);
  auto& queues = day.policy.queues;
  day.policy.borrowing = random.Percent(50);
  Random reclaims(day.seed, 18);
  for (config::Queue& queue : queues) {
    if (reclaims.Percent(15)) queue.preemption.reclaim = config::Reclaim::kNever;
    queue.weight = random.Between(0, 3) * 1'000;
    queue.priority = random.Between(0, 1);
    if (random.Percent(40)) continue;
    const auto limit = queue.limit.find(kGpu);
    const std::int64_t most = limit == queue.limit.end() ? 12 : limit->second / 1'000;
    queue.quota[kGpu] = random.Between(1, most) * 1'000;
    if (random.Percent(60)) {
      queue.lending_limit[kGpu] = random.Between(0, queue.quota[kGpu] / 1'000) * 1'000;
    }
    if (day.policy.borrowing && random.Percent(50)) queue.limit.clear();
  }
  const auto above = [&](const char* name, const char* parent, std::int64_t gpus) {
    config::Queue queue{.name = name, .parent = parent};
    if (gpus > 0) queue.limit[kGpu] = gpus * 1'000;
    queues.push_back(queue);
  };
  above("science", "org", random.Percent(70) ? random.Between(4, 24) : 0);
  above("org", "", random.Percent(70) ? random.Between(8, 32) : 0);
  queues[0].parent = "science";
  queues[1].parent = random.Percent(60) ? "science" : "org";
  if (random.Percent(50)) queues[2].parent = random.Percent(50) ? "org" : "a-plain-group";
  queues[3].namespaces = std::vector<std::string>{"*"};
  for (Job& job : day.jobs) {
    if (random.Percent(15)) job.queue = "science";
  }
  Random past(day.seed, 20);
  if (past.Percent(40)) day.policy.fairness.half_life = std::chrono::seconds(past.Between(5, 600));
  Random shows(day.seed, 21);
  if (shows.Percent(20)) day.policy.autoscaler.show = config::Show::kAll;
  if (shows.Percent(20)) day.policy.autoscaler.show = config::Show::kNone;
}

void EditTree(config::PolicyConfiguration& policy, std::uint64_t choice) {
  const auto set = [&](const char* name, const auto& change) {
    const auto queue = std::ranges::find(policy.queues, name, &config::Queue::name);
    if (queue != policy.queues.end()) change(*queue);
  };
  const auto move = [&](const char* name, const char* to) {
    set(name, [&](config::Queue& queue) { queue.parent = to; });
  };
  switch (choice % 7) {
    case 5:
      policy.borrowing = !policy.borrowing;
      policy.fairness.half_life = std::chrono::seconds(choice / 7 % 3 * 60);
      return;
    case 6:
      return set(choice % 2 == 0 ? "science" : "a", [&](config::Queue& queue) {
        const bool drains = choice / 7 % 3 == 0;
        queue.hold = drains ? config::Hold::kHoldAndDrain : config::Hold::kHold;
      });
    case 0:
      return set("org", [&](config::Queue& queue) {
        queue.limit[kGpu] = static_cast<std::int64_t>(1 + choice / 8 % 24) * 1'000;
      });
    case 1:
      return move("b", choice % 2 == 0 ? "" : "a");
    case 2:
      return move("science", "");
    case 3:  // upside down
      move("science", "a");
      move("a", "org");
      return;
    default:
      move("org", "science");
      move("science", "");
      return move("default", "science");
  }
}

Day DrawDay(std::uint64_t seed, const Profile& profile) {
  Random random(seed, 0);
  Day day;
  day.seed = seed;
  day.replicas = profile.replicas;
  day.start = kEpoch;
  day.faults_end = kEpoch + kTrouble;
  const auto nodes = static_cast<int>(random.Between(4, 12));
  for (int i = 0; i < nodes; ++i) day.nodes.push_back(MakeNode(i, random));
  day.policy = DrawPolicy(random);
  day.scheduler.preempts = random.Percent(80);
  if (random.Percent(15)) {
    day.scheduler.percentage = 50;
    day.scheduler.min_feasible = 2;
    day.scheduler.samples_end = day.faults_end;
  }
  const auto pods = static_cast<int>(random.Between(5, 30));
  // Work comes in waves, and faults with it: a fault in a quiet hour has little effect.
  std::vector<TimePoint> waves;
  for (std::int64_t i = random.Between(1, 4); i > 0; --i) {
    waves.push_back(kEpoch + 1'000 + random.Between(0, kTrouble - 25'000));
  }
  int created = 0;
  for (int i = 0; created < pods; ++i) {
    const auto wave = static_cast<std::size_t>(random.Next() % waves.size());
    day.jobs.push_back(DrawJob(i, pods - created, waves[wave], random));
    created += day.jobs.back().size;
  }
  day.faults = DrawFaults(profile, waves, 20'000, random);
  // Most of I9 is only checked where nothing goes wrong, so calm days have some of all worlds.
  Random worlds(seed, 22);
  const auto has = [&](bool always, int percent) {
    return always || (profile.kinds.empty() && worlds.Percent(percent));
  };
  const bool budgets = has(profile.budgets, 15);
  const bool mixed = has(profile.mixed, 25);
  const bool tree = has(profile.tree, 40);
  const bool flavors = has(profile.flavors, 40) && !tree;
  if (budgets) DrawBudgets(day);
  // A separate stream, so that days without them are not changed.
  Random trials(seed, 10);
  // Writing a checkpoint when a pod is deleted takes time: longer than plans live.
  Random endings(seed, 11);
  if (budgets || endings.Percent(15)) {
    for (Job& job : day.jobs) {
      if (endings.Percent(30)) job.ends_in = endings.Between(5, 100) * 1'000;
    }
  }
  if (!profile.kinds.empty() && trials.Percent(30)) {
    day.scheduler.trial_percent = static_cast<int>(trials.Between(10, 70));
    day.scheduler.trials_end = day.faults_end;
  }
  if (mixed) DrawMixed(day);
  if (profile.mixed || profile.kinds.empty()) DrawVolumes(day);
  if (tree) DrawTree(day);
  if (flavors) DrawFlavors(day);
  if (tree || flavors) DrawUsers(day);
  DrawEvictions(day);
  if (profile.short_passes) day.pass_budget = Random(seed, 13).Between(1, 100);
  return day;
}

}  // namespace berth::sim
