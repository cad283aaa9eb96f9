#include "policy/job_losses.h"

#include <algorithm>
#include <numeric>

namespace berth::policy {
namespace {

constexpr std::int64_t kDevice = 1000;

/// Jobs of one size, of one kind of devices.
struct Taken {
  std::int64_t amount = 0;  ///< What one of them has of the kind.
  std::int64_t all = 0;     ///< What ends with it, kinds added up.
  std::int64_t count = 0;
};

std::int64_t AllOf(const JobSize& job) {
  return std::accumulate(job.devices.begin(), job.devices.end(), std::int64_t{0});
}

/// The same for one kind of devices. The amounts before the last job are multiples of the greatest
/// common divisor, and less than the excess; what they end is at most what fractions of the jobs
/// would that end most for their amount.
std::int64_t MostTakenOf(std::vector<Taken> jobs, std::int64_t excess) {
  std::ranges::sort(jobs, [](const Taken& a, const Taken& b) {
    return static_cast<__int128>(a.all) * b.amount > static_cast<__int128>(b.all) * a.amount;
  });
  std::int64_t unit = 0;
  std::int64_t last = 0;
  for (const Taken& job : jobs) {
    unit = std::gcd(unit, job.amount);
    last = std::max(last, job.all);
  }
  if (unit == 0) return 0;
  std::int64_t left = (excess - 1) / unit * unit;
  std::int64_t taken = 0;
  for (const Taken& job : jobs) {
    const std::int64_t whole = std::min(job.count, left / job.amount);
    taken += whole * job.all;
    left -= whole * job.amount;
    if (whole == job.count) continue;
    taken += static_cast<std::int64_t>(static_cast<__int128>(job.all) * left / job.amount);
    break;
  }
  return taken + last;
}

}  // namespace

std::int64_t MostTaken(const std::vector<JobSize>& jobs, const DeviceAmounts& excess) {
  std::int64_t all = 0;
  for (const JobSize& job : jobs) all += AllOf(job) * job.count;
  std::int64_t most = 0;
  for (std::size_t kind = 0; kind < excess.size(); ++kind) {
    if (excess[kind] <= 0) continue;
    std::vector<Taken> of_kind;
    for (const JobSize& job : jobs) {
      if (kind >= job.devices.size() || job.devices[kind] <= 0) continue;
      of_kind.push_back({.amount = job.devices[kind], .all = AllOf(job), .count = job.count});
    }
    most += MostTakenOf(std::move(of_kind), excess[kind]);
  }
  return std::min(most, all);
}

std::int64_t MostTakenFor(const std::vector<JobSize>& jobs, std::int64_t claimed) {
  std::vector<JobSize> largest = jobs;
  std::ranges::sort(largest, std::greater(), AllOf);
  std::int64_t left = claimed / kDevice + (claimed % kDevice != 0 ? 1 : 0);
  std::int64_t most = 0;
  for (const JobSize& job : largest) {
    const std::int64_t taken = std::min(left, job.count);
    most += taken * AllOf(job);
    left -= taken;
  }
  return most;
}

}  // namespace berth::policy
