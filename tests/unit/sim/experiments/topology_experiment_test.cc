// `berth simulate topology`: gangs in the tree against one pod after the other.
#include "sim/experiments/topology_experiment.h"

#include "tests/support/catch.h"

namespace berth::sim {
namespace {

TopologyResult Look(const std::string& policy, double load, std::uint64_t seed = 1) {
  return RunTopology({.policy = policy, .load = load, .seed = seed, .jobs = 300});
}

TEST_CASE("topology: the same seed, the same jobs and the same result", "[unit][sim]") {
  const TopologyResult a = Look("Berth", 0.7);
  const TopologyResult b = Look("Berth", 0.7);
  CHECK(a.cross_rack_pairs == b.cross_rack_pairs);
  CHECK(a.rack_changes == b.rack_changes);
  CHECK(a.cross_socket_pairs == b.cross_socket_pairs);
  // Nobody is refused at a low load: so the jobs were the same for both policies.
  const TopologyResult other = Look("BestFit", 0.3);
  const TopologyResult same = Look("Berth", 0.3);
  CHECK(other.refused == 0);
  CHECK(same.refused == 0);
  CHECK(other.gangs == same.gangs);
  CHECK(other.pairs == same.pairs);
  CHECK(Look("Berth", 0.7, 2).pairs != a.pairs);
}

TEST_CASE("topology: a gang placed whole lies closer together", "[unit][sim]") {
  for (const double load : {0.7, 0.9}) {
    INFO(load);
    const TopologyResult plain = Look("BestFit", load);
    const TopologyResult berth = Look("Berth", load);
    CHECK(berth.cross_rack_pairs < plain.cross_rack_pairs / 2);
    CHECK(berth.rack_changes < plain.rack_changes / 2);
    CHECK(berth.cross_socket_pairs < plain.cross_socket_pairs);
    CHECK(plain.cross_rack_pairs <= plain.pairs);
  }
}

TEST_CASE("topology: rows", "[unit][sim]") {
  const auto rows = TopologyRows({{.policy = "Berth",
                                   .load = 0.7,
                                   .seed = 3,
                                   .gangs = 2,
                                   .refused = 1,
                                   .pairs = 1.5,
                                   .cross_rack_pairs = 0.25,
                                   .rack_changes = 0.125,
                                   .cross_socket_pairs = 0}});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].dump() ==
        R"({"experiment":"topology","level":"engine","load":0.7,"policy":"Berth","seed":3,)"
        R"("gangs":2,"refused_jobs":1,"mean_pairs":1.5,"mean_cross_rack_pairs":0.25,)"
        R"("mean_rack_changes":0.125,"mean_cross_socket_pairs":0.0})");
}

}  // namespace
}  // namespace berth::sim
