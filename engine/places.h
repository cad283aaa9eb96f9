// How many pods of one shape have room, by counting alone, once others have ended: what ends in any
// case, and some jobs.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/victim_job.h"

namespace berth::engine {

class Places {
 public:
  struct Freed {
    int places = 0;
    /// On the nodes of the jobs.
    std::map<cluster::NodeIndex, std::vector<const cluster::PodInfo*>> ended{};
  };

  /// All must outlive it. No node counts for more than `most`.
  Places(const View& view, const std::shared_ptr<const cluster::PodShape>& shape,
         const Ending& ending, int most);

  /// Takes time in proportion to the pods of the jobs.
  Freed With(std::span<const VictimJob* const> jobs) const;
  /// How many have room if all of `freed` has ended except the pods of `job`.
  int Without(const VictimJob& job, const Freed& freed) const;

 private:
  template <typename Nodes>
  int Sum(const Nodes& nodes, const policy::Overlay& overlay) const;

  const View& view_;
  const std::shared_ptr<const cluster::PodShape>& shape_;
  const Ending& ending_;
  const int most_;
  int all_ = 0;
};

}  // namespace berth::engine
