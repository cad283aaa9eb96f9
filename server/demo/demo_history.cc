#include "server/demo/demo_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "kube/terminal.h"
#include "server/cli/table.h"
#include "server/demo/demo_jobs.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLabelWidth = 15;
/// How many rows all GPUs of the cluster would have.
constexpr int kRows = 8;
constexpr std::size_t kColumnsPerTick = 10;
constexpr std::array<std::string_view, 9> kEighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

/// The label and the axis.
std::string Margin(std::string_view name, int amount, std::string_view axis,
                   const PictureStyle& style) {
  const std::string number = amount > 0 ? std::to_string(amount) : std::string();
  std::string label = PadTo(kube::Printable(name), kLabelWidth - 1 - number.size()) + number;
  return label + " " + Dim(axis, style);
}

/// The rows of `unit` GPUs that the amount reaches into.
int RowsOf(int amount, int unit) { return (amount + unit - 1) / unit; }

/// What a row of `unit` GPUs above `from` shows of `used`.
std::string_view Block(int used, int from, int unit, const PictureStyle& style) {
  const int eighths = std::clamp((8 * (used - from) + unit / 2) / unit, 0, 8);
  if (style.unicode) return kEighths[static_cast<std::size_t>(eighths)];
  return eighths >= 4 ? "#" : " ";
}

/// The columns of one row, from `from` up: what is used; below the quota dots for what is not; and
/// a mark in the row that the fair share reaches, if what is used ends in another one.
std::string UseRow(const QueueHistory::Queue& queue, int from, int unit,
                   const PictureStyle& style) {
  enum class Kind : std::uint8_t { kEmpty, kUsed, kShare, kShareOnUsed };
  std::string out;
  std::string run;  // of one kind
  Kind kind = Kind::kEmpty;
  const auto end_run = [&] {
    if (run.empty()) return;
    if (kind == Kind::kEmpty) out += Dim(run, style);
    if (kind == Kind::kUsed) out += InColourOf(queue.name, run, style);
    if (kind == Kind::kShare) out += run;
    if (kind == Kind::kShareOnUsed) out += OnColourOf(queue.name, run, style);
    run.clear();
  };
  for (std::size_t i = 0; i < queue.used.size(); ++i) {
    std::string_view block = Block(queue.used[i], from, unit, style);
    const bool empty = block == " ";
    if (empty && from < queue.quota) block = style.unicode ? "·" : ".";
    Kind here = empty ? Kind::kEmpty : Kind::kUsed;
    if (RowsOf(queue.share[i], unit) == RowsOf(from, unit) + 1 &&
        RowsOf(queue.used[i], unit) != RowsOf(queue.share[i], unit)) {
      here = queue.used[i] >= from + unit ? Kind::kShareOnUsed : Kind::kShare;
      block = style.unicode ? "○" : "o";
    }
    if (here != kind) end_run();
    kind = here;
    run += block;
  }
  end_run();
  return out;
}

/// A line over what is in use, where that reaches beyond the quota.
std::string QuotaLine(const QueueHistory::Queue& queue, const PictureStyle& style) {
  const std::string_view dash = style.unicode ? "╌" : "-";
  std::string out;
  for (std::size_t i = 0; i < QueueHistory::kColumns; ++i) {
    const bool beyond = i < queue.used.size() && queue.used[i] > queue.quota;
    out += beyond ? OnColourOf(queue.name, dash, style) : Dim(dash, style);
  }
  return out;
}

std::string Area(const QueueHistory::Queue& queue, int unit, const PictureStyle& style) {
  const int quota_rows = RowsOf(queue.quota, unit);
  const int top = std::max({1, quota_rows, RowsOf(queue.limit, unit)});
  const std::string_view axis = style.unicode ? "│" : "|";
  std::string out;
  for (int row = top; row > 0; --row) {
    if (row == quota_rows && row != top) {
      out += Margin("  quota", queue.quota, style.unicode ? "├" : "+", style) +
             QuotaLine(queue, style) + "\n";
    }
    const bool first = row == top;
    out += Margin(first ? queue.name : "", first ? queue.limit : 0, axis, style) +
           UseRow(queue, (row - 1) * unit, unit, style) + "\n";
  }
  return out;
}

/// The time below the areas, with a tick at every tenth column.
std::string TimeAxis(std::int64_t length_ms, const PictureStyle& style) {
  std::string line;
  std::string times;
  for (std::size_t i = 0; i < QueueHistory::kColumns; ++i) {
    const bool tick = i % kColumnsPerTick == 0;
    line += style.unicode ? (tick ? "┴" : "─") : (tick ? "+" : "-");
    if (!tick) continue;
    const double ms = static_cast<double>(length_ms) * static_cast<double>(i) /
                      static_cast<double>(QueueHistory::kColumns);
    times += PadTo(fmt::format("{:g} s", ms / 1000.0), kColumnsPerTick);
  }
  while (times.ends_with(' ')) times.pop_back();
  return Margin("", 0, style.unicode ? "└" : "+", style) + Dim(line, style) + "\n" +
         std::string(kLabelWidth + 1, ' ') + Dim(times, style) + "\n";
}

/// When jobs were evicted by one rule. Empty: none was.
std::string Marks(std::string_view label, const QueueHistory& history,
                  const std::vector<JobEviction>& evictions, bool (JobEviction::*is)() const,
                  const PictureStyle& style) {
  std::array<bool, QueueHistory::kColumns> marked{};
  bool any = false;
  for (const JobEviction& eviction : evictions) {
    if (!(eviction.*is)()) continue;
    any = true;
    marked[std::min(history.ColumnOf(eviction.at_ms), marked.size() - 1)] = true;
  }
  if (!any) return {};
  std::string line;
  for (const bool mark : marked) line += mark ? (style.unicode ? "▲" : "^") : " ";
  while (line.ends_with(' ')) line.pop_back();
  return Margin(label, 0, " ", style) + line + "\n";
}

}  // namespace

std::size_t QueueHistory::ColumnOf(std::int64_t now_ms) const {
  return static_cast<std::size_t>(std::max<std::int64_t>(0, now_ms)) * kColumns /
         static_cast<std::size_t>(length_ms_);
}

bool QueueHistory::Due(std::int64_t now_ms) const {
  const std::size_t column = ColumnOf(now_ms);
  return column < kColumns && (queues_.empty() || queues_.front().used.size() <= column);
}

void QueueHistory::Add(std::int64_t now_ms, const Json& page) {
  const std::size_t column = std::min(ColumnOf(now_ms), kColumns - 1);
  for (const Json& item : page.value("items", Json::array())) {
    if (GpusIn(item, "quota") == 0 && GpusIn(item, "used") == 0) continue;  // no queue of devices
    const std::string name = item.value("name", "");
    auto queue = std::ranges::find(queues_, name, &Queue::name);
    if (queue == queues_.end()) {
      queues_.push_back({.name = name});
      queue = std::prev(queues_.end());
    }
    queue->quota = GpusIn(item, "quota");
    queue->limit = GpusIn(item, "limit");
    const auto note = [&](std::vector<int>& samples, int gpus) {
      samples.resize(std::max(samples.size(), column), samples.empty() ? 0 : samples.back());
      samples.resize(column + 1);
      samples.back() = gpus;
    };
    note(queue->used, GpusIn(item, "used"));
    note(queue->share, GpusIn(item, "fairShare"));
  }
}

std::string DrawHistory(const QueueHistory& history, const std::vector<JobEviction>& evictions,
                        int gpus, const PictureStyle& style) {
  const int unit = std::max(1, gpus / kRows);
  std::string out;
  for (const QueueHistory::Queue& queue : history.queues()) out += Area(queue, unit, style);
  out += TimeAxis(history.length_ms(), style);
  out += Marks("taken back", history, evictions, &JobEviction::reclaimed, style);
  out += Marks("preempted", history, evictions, &JobEviction::preempted, style);
  return out;
}

}  // namespace berth::server
