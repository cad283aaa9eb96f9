// The demo's picture: nodes and GPUs by rack, queues as bars. Drawn from the service's own pages.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace berth::server {

/// What the terminal can show.
struct PictureStyle {
  bool colour = false;
  bool unicode = true;
  std::size_t width = 80;
};

/// How to draw on the terminal behind standard output: colour on a terminal without NO_COLOR,
/// Unicode unless the locale excludes it.
PictureStyle StyleOfTerminal(bool is_terminal);

/// How a pod's devices are shown: a letter, and whether the pod took the whole node.
struct PodMark {
  char letter = 0;  ///< 0: the first letter of its queue, upper case.
  bool whole_node = false;
};

/// By NAMESPACE/NAME.
using PodMarks = std::map<std::string, PodMark>;

/// Racks side by side, one line per node, two columns per GPU; then the legend.
std::string DrawNodes(const nlohmann::ordered_json& nodes, const PodMarks& marks,
                      const PictureStyle& style);

/// One bar per queue, on the scale of the cluster's GPUs: used, quota, limit.
std::string DrawQueues(const nlohmann::ordered_json& queues, int gpus, const PictureStyle& style);

/// An amount of GPUs in an item of the queues page, such as `used`; `otherwise`: it has none.
int GpusIn(const nlohmann::ordered_json& queue, const char* key, int otherwise = 0);

/// The effect of fragmentation, from the nodes page.
struct Packing {
  int nodes = 0;
  int free_nodes = 0;  ///< Without any pod: room for whole-node pods.
  int full_nodes = 0;
  int gpus = 0;
  int free_gpus = 0;
  int broken_gpus = 0;      ///< Free GPUs on nodes that are partly used.
  int best_rack_nodes = 0;  ///< The largest number of free nodes in one rack.
};
Packing MeasurePacking(const nlohmann::ordered_json& nodes);

/// `text` in the colour of a queue, or as it is.
std::string InColourOf(std::string_view queue, std::string_view text, const PictureStyle& style);
/// The same with the colour behind it.
std::string OnColourOf(std::string_view queue, std::string_view text, const PictureStyle& style);
std::string Bold(std::string_view text, const PictureStyle& style);
std::string Dim(std::string_view text, const PictureStyle& style);

}  // namespace berth::server
