// The demo's picture: nodes and GPUs by rack, queues as bars. Drawn from the service's own pages.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace berth::server {

struct PictureStyle {
  bool colour = false;
  bool unicode = true;
  std::size_t width = 80;
};

/// How the terminal behind standard output is to be drawn on: colour on a terminal without
/// NO_COLOR, Unicode unless the locale says otherwise.
PictureStyle StyleOfTerminal(bool is_terminal);

/// How a pod's devices are shown: a letter, and whether it took the whole node for it.
struct PodMark {
  char letter = 0;  ///< 0: the first letter of its queue, upper case.
  bool whole_node = false;
};

/// By NAMESPACE/NAME.
using PodMarks = std::map<std::string, PodMark>;

/// Racks side by side, a line a node, two columns a GPU; then the legend.
std::string DrawNodes(const nlohmann::ordered_json& nodes, const PodMarks& marks,
                      const PictureStyle& style);

/// A bar a queue, on the scale of the cluster's GPUs: used, quota, limit.
std::string DrawQueues(const nlohmann::ordered_json& queues, int gpus, const PictureStyle& style);

/// What fragmentation leaves, from the nodes page.
struct Packing {
  int nodes = 0;
  int free_nodes = 0;  ///< Nothing on them: room for whole-node pods.
  int full_nodes = 0;
  int gpus = 0;
  int free_gpus = 0;
  int broken_gpus = 0;      ///< Free ones on nodes that are partly used.
  int best_rack_nodes = 0;  ///< The most free nodes of one rack.
};
Packing MeasurePacking(const nlohmann::ordered_json& nodes);

/// `text` in the colour of a queue, or as it is.
std::string InColourOf(std::string_view queue, std::string_view text, const PictureStyle& style);
std::string Bold(std::string_view text, const PictureStyle& style);
std::string Dim(std::string_view text, const PictureStyle& style);

}  // namespace berth::server
