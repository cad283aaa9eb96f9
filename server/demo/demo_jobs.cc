#include "server/demo/demo_jobs.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>

namespace berth::server {
namespace {

/// A kind of job that a team submits again and again.
struct Class {
  const char* name;
  const char* team;
  int pods;
  int gpus;
  std::int64_t every_ms;  ///< On average, in a cluster of 192 GPUs.
  std::int64_t run_ms;    ///< On average.
  std::int64_t first_ms = 0;
  std::int64_t until_ms = 0;  ///< None comes from then on; 0: they come to the end.
  bool whole_node = false;
  bool gated = false;
  const char* required = "";
  const char* preferred = "";
};

constexpr Class kClasses[] = {
    {.name = "nightly",  // with these, research has more than its limit while product is quiet
     .team = "research",
     .pods = 4,
     .gpus = 8,
     .every_ms = 240,
     .run_ms = 6000,
     .first_ms = 150,
     .until_ms = 1100,
     .gated = true,
     .preferred = "rack"},
    {.name = "pretrain",
     .team = "research",
     .pods = 8,
     .gpus = 8,
     .every_ms = 4500,
     .run_ms = 3600,
     .first_ms = 250,
     .gated = true,
     .preferred = "rack"},
    {.name = "finetune",
     .team = "research",
     .pods = 4,
     .gpus = 8,
     .every_ms = 4500,
     .run_ms = 2700,
     .first_ms = 500,
     .gated = true,
     .required = "rack"},
    {.name = "eval",  // research borrows again when product's releases are over
     .team = "research",
     .pods = 2,
     .gpus = 8,
     .every_ms = 350,
     .run_ms = 3600,
     .first_ms = 8600,
     .until_ms = 10'200,
     .gated = true},
    {.name = "sweep",
     .team = "research",
     .pods = 16,
     .gpus = 1,
     .every_ms = 3000,
     .run_ms = 2600,
     .first_ms = 800},
    {.name = "ablation", .team = "research", .pods = 1, .gpus = 4, .every_ms = 650, .run_ms = 2400},
    {.name = "probe",
     .team = "research",
     .pods = 1,
     .gpus = 2,
     .every_ms = 800,
     .run_ms = 1800,
     .gated = true},
    {.name = "release",
     .team = "product",
     .pods = 2,
     .gpus = 8,
     .every_ms = 500,
     .run_ms = 2400,
     .first_ms = 5000,
     .until_ms = 7200,
     .gated = true,
     .required = "rack"},
    {.name = "bench",
     .team = "product",
     .pods = 1,
     .gpus = 8,
     .every_ms = 1500,
     .run_ms = 2100,
     .whole_node = true,
     .gated = true},
    {.name = "serving",
     .team = "product",
     .pods = 1,
     .gpus = 2,
     .every_ms = 450,
     .run_ms = 3600,
     .gated = true},
    {.name = "embed",
     .team = "product",
     .pods = 1,
     .gpus = 1,
     .every_ms = 500,
     .run_ms = 2400,
     .gated = true},
    {.name = "notebook",
     .team = "interactive",
     .pods = 1,
     .gpus = 1,
     .every_ms = 160,
     .run_ms = 1500,
     .gated = true},
    {.name = "debug",
     .team = "interactive",
     .pods = 1,
     .gpus = 2,
     .every_ms = 480,
     .run_ms = 1100,
     .gated = true},
};

constexpr std::int32_t kUrgent = 1000;

/// Uniform in [low, high], the same with every standard library.
std::int64_t Between(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

DemoJob OneOf(const Class& kind, std::mt19937_64& random) {
  DemoJob job{.name = {},
              .team = kind.team,
              .pods = kind.pods,
              .gpus = kind.gpus,
              .whole_node = kind.whole_node,
              .gated = kind.gated,
              .required = kind.required,
              .preferred = kind.preferred};
  job.run_ms = Between(random, kind.run_ms * 6 / 10, kind.run_ms * 14 / 10);
  return job;
}

/// Adds three jobs that show something special: one of high priority that comes when its queue is
/// at its limit, a gang whose last member is never created, and a job that asks for more than its
/// queue may ever use.
void AddSpecial(std::vector<DemoJob>& jobs, std::int64_t length_ms, int gpus) {
  jobs.push_back({.name = "hotfix-1",
                  .team = "research",
                  .pods = 4,
                  .gpus = 8,
                  .priority = kUrgent,
                  .gated = true,
                  .preferred = "rack",
                  .at_ms = length_ms / 4,
                  .run_ms = length_ms / 8});
  jobs.push_back({.name = "halfset-1",
                  .team = "research",
                  .pods = 4,
                  .gpus = 4,
                  .gated = true,
                  .at_ms = length_ms / 2,
                  .run_ms = length_ms,
                  .late = 1,
                  .late_ms = -1});
  jobs.push_back({.name = "toolarge-1",
                  .team = "interactive",
                  .pods = std::max(2, gpus / 8 / 4),
                  .gpus = 8,
                  .gated = true,
                  .at_ms = length_ms * 6 / 10,
                  .run_ms = length_ms});
}

}  // namespace

std::string DemoJob::PodUid(int index) const {
  const std::string uid = team + "-" + PodName(index);
  return round == 0 ? uid : fmt::format("{}-{}", uid, round);
}

std::string DemoJob::WorkloadKey() const {
  return fmt::format("{}/{}/{}", team, gang() ? "gang" : "pod", name);
}

std::string DemoJob::PodName(int index) const {
  return gang() ? fmt::format("{}-{}", name, index) : name;
}

std::string DemoJob::Shape() const {
  if (whole_node) return "whole node";
  if (gang()) return fmt::format("{}x{}", pods, gpus);
  return fmt::format("{} GPU{}", gpus, gpus == 1 ? "" : "s");
}

std::vector<DemoJob> DemoStream(std::uint64_t seed, int gpus, std::int64_t length_ms, double pace) {
  std::mt19937_64 random(seed);
  std::vector<DemoJob> jobs;
  const double scale = 192.0 / std::max(8, gpus) * pace;
  const auto paced = [pace](std::int64_t ms) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(ms) * pace));
  };
  for (const Class& kind : kClasses) {
    const auto every = std::max<std::int64_t>(
        4, static_cast<std::int64_t>(static_cast<double>(kind.every_ms) * scale));
    const std::int64_t until =
        kind.until_ms == 0 ? length_ms : std::min(length_ms, paced(kind.until_ms));
    std::int64_t at = paced(kind.first_ms) + Between(random, 0, every / 4);
    for (int number = 1; at < until; ++number) {
      DemoJob job = OneOf(kind, random);
      job.name = fmt::format("{}-{}", kind.name, number);
      job.at_ms = at;
      job.run_ms = paced(job.run_ms);
      if (job.gang() && number == 2) {  // its controller is slow with the last ones
        job.late = std::max(1, job.pods / 4);
        job.late_ms = paced(900);
      }
      at += Between(random, every / 2, every + every / 2);
      jobs.push_back(std::move(job));
    }
  }
  AddSpecial(jobs, length_ms, gpus);
  std::ranges::stable_sort(jobs, {}, &DemoJob::at_ms);
  return jobs;
}

nlohmann::json DemoPod(const DemoJob& job, int index, std::int64_t now_ms) {
  const int asked = job.whole_node ? 1 : job.gpus;
  const std::string amount = std::to_string(asked);
  nlohmann::json labels{{"app.kubernetes.io/name", job.name}};
  nlohmann::json annotations = nlohmann::json::object();
  if (job.gang()) {
    labels["berth.dev/gang"] = job.name;
    annotations["berth.dev/gang-size"] = std::to_string(job.pods);
    annotations["batch.kubernetes.io/job-completion-index"] = std::to_string(index);
  }
  if (job.whole_node) annotations["berth.dev/whole-node"] = "true";
  if (!job.required.empty()) annotations["berth.dev/topology-required"] = job.required;
  if (!job.preferred.empty()) annotations["berth.dev/topology-preferred"] = job.preferred;
  std::time_t seconds = now_ms / 1000;
  std::tm created{};
  gmtime_r(&seconds, &created);
  const nlohmann::json resources{{"requests",
                                  {{"cpu", std::to_string(4 * asked)},
                                   {"memory", std::to_string(32 * asked) + "Gi"},
                                   {"nvidia.com/gpu", amount}}},
                                 {"limits", {{"nvidia.com/gpu", amount}}}};
  nlohmann::json container{{"name", "main"},
                           {"image", "registry.local/" + job.team + "/" + job.name},
                           {"resources", resources}};
  nlohmann::json pod;
  pod["metadata"] = {{"name", job.PodName(index)},
                     {"namespace", job.team},
                     {"uid", job.PodUid(index)},
                     {"creationTimestamp", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", created)},
                     {"labels", std::move(labels)},
                     {"annotations", std::move(annotations)}};
  pod["spec"]["schedulerName"] = "default-scheduler";
  pod["spec"]["priority"] = job.priority;
  if (job.priority > 0) pod["spec"]["priorityClassName"] = "urgent";
  pod["spec"]["containers"].push_back(std::move(container));
  pod["status"]["phase"] = "Pending";
  if (job.gated) {
    pod["spec"]["schedulingGates"].push_back(nlohmann::json{{"name", "berth.dev/admission"}});
  }
  return pod;
}

config::PolicyConfiguration DemoPolicy(int gpus) {
  config::PolicyConfiguration policy;
  policy.borrowing = true;
  policy.queues.clear();
  const auto add = [&](const char* name, int quota_eighths, int limit_eighths) {
    const auto share = [&](int eighths) {
      return std::max<std::int64_t>(8, static_cast<std::int64_t>(gpus) * eighths / 8) * 1000;
    };
    policy.queues.push_back({.name = name,
                             .namespaces = std::vector<std::string>{name},
                             .quota = {{"nvidia.com/gpu", share(quota_eighths)}},
                             .limit = {{"nvidia.com/gpu", share(limit_eighths)}}});
  };
  add("research", 4, 6);
  add("product", 3, 4);
  add("interactive", 1, 1);
  return policy;
}

}  // namespace berth::server
