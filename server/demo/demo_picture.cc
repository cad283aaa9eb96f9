#include "server/demo/demo_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <vector>

#include "kube/terminal.h"
#include "server/cli/table.h"
#include "server/demo/demo_jobs.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNameWidth = 8;
constexpr std::size_t kGap = 2;
constexpr std::size_t kMaxCells = 16;
constexpr std::size_t kMaxNodes = 96;
constexpr std::size_t kBarWidth = 32;

/// Colours of the 256-colour palette that can be distinguished with every common kind of colour
/// blindness.
struct Colour {
  int back;
  int front;
};
constexpr Colour kColours[] = {{25, 231}, {214, 16}, {30, 231}, {133, 231}, {240, 231}};

const Colour& ColourOf(std::string_view queue) {
  if (queue == "research") return kColours[0];
  if (queue == "product") return kColours[1];
  if (queue == "interactive") return kColours[2];
  std::size_t sum = 0;
  for (const char c : queue) sum += static_cast<unsigned char>(c);
  return kColours[3 + sum % 2];
}

int AsInt(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end()) return 0;
  if (it->is_number()) return it->get<int>();
  return it->is_string() ? std::atoi(it->get_ref<const std::string&>().c_str()) : 0;
}

struct Cell {
  std::string queue;  ///< Empty: free.
  char letter = 0;
  bool planned = false;
};

struct NodeRow {
  std::string name;
  std::string rack;
  int gpus = 0;
  int used = 0;
  std::vector<Cell> cells{};
};

struct Taken {
  std::string queue;
  std::string pod;
  int gpus = 0;
  bool planned = false;
};

NodeRow RowOf(const Json& node, const PodMarks& marks) {
  NodeRow row{.name = node.value("name", ""), .rack = {}, .cells = {}};
  if (node.contains("domains")) row.rack = node["domains"].value("rack", "");
  if (node.contains("devices") && node["devices"].contains(kGpu)) {
    row.gpus = AsInt(node["devices"][kGpu], "allocatable");
    row.used = AsInt(node["devices"][kGpu], "used");
  }
  std::vector<Taken> pods;
  for (const Json& pod : node.value("pods", Json::array())) {
    pods.push_back({pod.value("queue", ""), pod.value("pod", ""), AsInt(pod, "devices"),
                    pod.value("planned", false)});
  }
  std::ranges::sort(pods, {}, [](const Taken& t) { return std::tie(t.queue, t.pod); });
  for (const Taken& taken : pods) {
    const auto it = marks.find(taken.pod);
    const PodMark mark = it == marks.end() ? PodMark{} : it->second;
    const char team =
        taken.queue.empty()
            ? '?'
            : static_cast<char>(std::toupper(static_cast<unsigned char>(taken.queue[0])));
    for (int i = 0; i < taken.gpus; ++i) {
      const char letter = mark.letter != 0 ? mark.letter : team;
      row.cells.push_back({taken.queue.empty() ? "?" : taken.queue,
                           mark.whole_node && i > 0 ? '=' : letter, taken.planned});
    }
  }
  row.cells.resize(std::min<std::size_t>(static_cast<std::size_t>(row.gpus), kMaxCells));
  return row;
}

std::string DrawCell(const Cell& cell, const PictureStyle& style) {
  if (cell.queue.empty()) return Dim(style.unicode ? "· " : ". ", style);
  const char letter = cell.planned && !style.colour ? '+' : cell.letter;
  const std::string text{letter, ' '};
  return cell.planned ? InColourOf(cell.queue, text, style) : OnColourOf(cell.queue, text, style);
}

/// The end of a long name distinguishes nodes, not its start.
std::string Shortened(const std::string& name) {
  const std::string shown = kube::Printable(name);
  return shown.size() <= kNameWidth ? shown : shown.substr(shown.size() - kNameWidth);
}

std::map<std::string, std::vector<NodeRow>> RacksOf(const Json& nodes, const PodMarks& marks) {
  std::map<std::string, std::vector<NodeRow>> racks;
  std::size_t count = 0;
  for (const Json& node : nodes.value("items", Json::array())) {
    NodeRow row = RowOf(node, marks);
    if (row.gpus == 0 || ++count > kMaxNodes) continue;
    racks[row.rack].push_back(std::move(row));
  }
  return racks;
}

/// One rack's lines, each `width` columns wide: a heading, then its nodes.
std::vector<std::string> DrawRack(const std::string& name, const std::vector<NodeRow>& rows,
                                  std::size_t width, const PictureStyle& style) {
  int gpus = 0;
  int used = 0;
  for (const NodeRow& row : rows) {
    gpus += row.gpus;
    used += row.used;
  }
  const std::string count = fmt::format("{}/{} GPUs", used, gpus);
  const std::string title =
      name.empty() ? "nodes" : kube::Printable(name.substr(name.rfind('/') + 1));
  const std::size_t gap =
      width > title.size() + count.size() ? width - title.size() - count.size() : 1;
  std::vector<std::string> lines{Bold(title, style) + std::string(gap, ' ') + Dim(count, style)};
  for (const NodeRow& row : rows) {
    std::string line = PadTo(Shortened(row.name), kNameWidth);
    for (const Cell& cell : row.cells) line += DrawCell(cell, style);
    const std::size_t columns = kNameWidth + 2 * row.cells.size();
    lines.push_back(line + std::string(width > columns ? width - columns : 0, ' '));
  }
  return lines;
}

std::string Trimmed(std::string line) {
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string Legend(const std::map<std::string, std::vector<NodeRow>>& racks,
                   const PictureStyle& style) {
  std::map<std::string, bool> queues;
  for (const auto& [name, rows] : racks) {
    for (const NodeRow& row : rows) {
      for (const Cell& cell : row.cells) {
        if (!cell.queue.empty()) queues[cell.queue] = true;
      }
    }
  }
  std::string legend;
  for (const auto& [queue, seen] : queues) {
    const char letter = static_cast<char>(std::toupper(static_cast<unsigned char>(queue[0])));
    legend += DrawCell({queue, letter, false}, style) + (style.colour ? " " : "") + queue + "  ";
  }
  legend += "a-z gangs  = whole node  ";
  legend += style.colour ? "" : "+ planned  ";
  return legend + (style.unicode ? "· free\n" : ". free\n");
}

}  // namespace

PictureStyle StyleOfTerminal(bool is_terminal) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  PictureStyle style;
  style.colour = is_terminal && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = variable(name);
    if (locale.empty()) continue;
    style.unicode = locale.find("UTF") != locale.npos || locale.find("utf") != locale.npos;
    break;
  }
  return style;
}

std::string InColourOf(std::string_view queue, std::string_view text, const PictureStyle& style) {
  if (!style.colour) return std::string(text);
  return fmt::format("\x1b[38;5;{}m{}\x1b[0m", ColourOf(queue).back, text);
}

std::string OnColourOf(std::string_view queue, std::string_view text, const PictureStyle& style) {
  if (!style.colour) return std::string(text);
  const Colour& colour = ColourOf(queue);
  return fmt::format("\x1b[48;5;{};38;5;{}m{}\x1b[0m", colour.back, colour.front, text);
}

std::string Bold(std::string_view text, const PictureStyle& style) {
  return style.colour ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string Dim(std::string_view text, const PictureStyle& style) {
  return style.colour ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

std::string DrawNodes(const Json& nodes, const PodMarks& marks, const PictureStyle& style) {
  const auto racks = RacksOf(nodes, marks);
  std::size_t cells = 0;
  for (const auto& [name, rows] : racks) {
    for (const NodeRow& row : rows) cells = std::max(cells, row.cells.size());
  }
  const std::size_t width = kNameWidth + 2 * cells;
  const std::size_t across = std::max<std::size_t>(1, (style.width + kGap) / (width + kGap));
  std::string out;
  for (auto it = racks.begin(); it != racks.end();) {
    std::vector<std::vector<std::string>> blocks;
    std::size_t height = 0;
    for (; it != racks.end() && blocks.size() < across; ++it) {
      blocks.push_back(DrawRack(it->first, it->second, width, style));
      height = std::max(height, blocks.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
      std::string text;
      for (const auto& block : blocks) {
        if (!text.empty()) text += std::string(kGap, ' ');
        text += line < block.size() ? block[line] : std::string(width, ' ');
      }
      out += Trimmed(std::move(text)) + "\n";
    }
    out += "\n";
  }
  return out + Legend(racks, style);
}

int GpusIn(const Json& queue, const char* key, int otherwise) {
  const auto amounts = queue.find(key);
  if (amounts == queue.end() || !amounts->is_object() || !amounts->contains(kGpu)) return otherwise;
  return AsInt(*amounts, kGpu);
}

std::string DrawQueues(const Json& queues, int gpus, const PictureStyle& style) {
  std::string out;
  for (const Json& queue : queues.value("items", Json::array())) {
    const std::string name = queue.value("name", "");
    const int used = GpusIn(queue, "used");
    const int quota = GpusIn(queue, "quota");
    const int limit = GpusIn(queue, "limit", gpus);
    const auto column = [&](int value) {
      return std::min(kBarWidth, kBarWidth * static_cast<std::size_t>(std::max(0, value)) /
                                     static_cast<std::size_t>(std::max(1, gpus)));
    };
    std::string full;
    std::string open;
    for (std::size_t i = 0; i < column(limit); ++i) {
      const bool mark = quota > 0 && i + 1 == column(quota);
      if (i < column(used)) {
        full += style.unicode ? (mark ? "▓" : "█") : (mark ? "|" : "#");
      } else {
        open += style.unicode ? (mark ? "┃" : "░") : (mark ? "|" : ".");
      }
    }
    const std::string bar = InColourOf(name, full, style) + Dim(open, style) +
                            std::string(kBarWidth - column(limit), ' ');
    std::string text = fmt::format("{} {} {:>3} of quota {:>3}, limit {:>3}", PadTo(name, 12), bar,
                                   used, quota, limit);
    if (used > quota) text += fmt::format(" (+{})", used - quota);
    out += text + "\n";
  }
  return out;
}

Packing MeasurePacking(const Json& nodes) {
  Packing packing;
  std::map<std::string, int> free_by_rack;
  for (const Json& node : nodes.value("items", Json::array())) {
    const NodeRow row = RowOf(node, {});
    if (row.gpus == 0) continue;
    const int free = std::max(0, row.gpus - row.used);
    ++packing.nodes;
    packing.gpus += row.gpus;
    packing.free_gpus += free;
    packing.full_nodes += free == 0 ? 1 : 0;
    if (row.used == 0) {
      ++packing.free_nodes;
      packing.best_rack_nodes = std::max(packing.best_rack_nodes, ++free_by_rack[row.rack]);
    } else {
      packing.broken_gpus += free;
    }
  }
  return packing;
}

}  // namespace berth::server
