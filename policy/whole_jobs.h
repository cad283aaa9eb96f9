// What the jobs of a queue, each as a whole, make of a rising amount of devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth::policy {

/// By kind of device, in the order of Store::device_ids(). Thousandths of devices.
using DeviceAmounts = std::vector<std::int64_t>;

/// Jobs of one size.
struct JobSize {
  DeviceAmounts devices{};
  std::int64_t count = 1;

  bool operator==(const JobSize&) const = default;
};

/// Fills a level with jobs: the largest job first, and each that still fits. The level rises from 0
/// to the quota and then above it, all kinds of devices alike, and always to the next height at
/// which one more job fits. So what is taken depends on the sizes of the jobs alone, not on which
/// of them run, and with one kind of devices it grows at every step: the first job that a higher
/// level admits fills what is left exactly.
///
/// With several kinds a step may be no gain in some kind. From then on, and beyond a number of
/// steps in proportion to that of the jobs or with very many sizes, one job is added after the
/// other, the smallest first. All takes O(jobs * kMostSizes) at most.
class WholeJobs {
 public:
  static constexpr std::size_t kMostSizes = 64;

  /// `quota` and `total`, what there is in all, say how high a level is in each kind.
  WholeJobs(std::vector<JobSize> jobs, DeviceAmounts quota, DeviceAmounts total);

  /// What the jobs that are taken add up to.
  const DeviceAmounts& taken() const { return taken_; }
  /// False: there is no next step, all jobs are taken or passed over.
  bool more() const { return more_; }
  /// What the next step adds. REQUIRES: more().
  const DeviceAmounts& step() const { return step_; }
  void Take();
  /// The next step does not fit: no more jobs of the size that brought it about than are taken.
  /// With one kind of devices that was the last step, as every other one is larger.
  void PassOver();

 private:
  struct Size {
    DeviceAmounts devices;
    __int128 part;  ///< The largest part that they are of all of a kind, in billionths.
    std::int64_t count;
    std::int64_t taken = 0;
    std::int64_t next = 0;  ///< How many are taken at the next level.
    bool promised = false;  ///< They ask for a kind that has a quota.
  };

  void FindNext();
  bool RaiseLevel();
  bool AddSmallest();
  __int128 LevelFor(std::size_t kind, std::int64_t amount) const;
  std::int64_t AmountAt(std::size_t kind, __int128 level) const;
  void FillTo(__int128 level);
  bool IsBound(const Size& size, std::size_t kind) const;

  std::vector<Size> sizes_;  ///< The largest first.
  DeviceAmounts quota_;
  DeviceAmounts total_;
  DeviceAmounts taken_;
  DeviceAmounts step_;
  bool more_ = false;
  bool raises_ = false;           ///< The next step raises the level: Size::next is set.
  std::size_t trigger_ = 0;       ///< The size of which the next step takes one more.
  std::int64_t raises_left_ = 0;  ///< 0: jobs are added one after the other.
  std::size_t not_all_ = 0;       ///< When they are: of the sizes from here on, all are taken.
};

}  // namespace berth::policy
