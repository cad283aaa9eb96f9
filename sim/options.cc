#include "sim/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "config/decode.h"

namespace berth::sim {
namespace {

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::vector<std::uint64_t>> ParseSeeds(std::string_view text) {
  constexpr std::size_t kMost = 10'000;
  std::vector<std::uint64_t> seeds;
  for (const std::string_view part : SplitAt(text, ',')) {
    const auto ends = SplitAt(part, '-');
    const auto first = ParseNumber(ends.front());
    const auto last = ParseNumber(ends.back());
    if (!first || !last || ends.size() > 2 || *last < *first) return std::nullopt;
    if (*last - *first >= kMost - std::min(kMost, seeds.size())) return std::nullopt;
    for (std::uint64_t seed = *first;; ++seed) {
      if (std::ranges::find(seeds, seed) == seeds.end()) seeds.push_back(seed);
      if (seed == *last) break;
    }
  }
  return seeds;
}

std::expected<std::vector<std::string>, std::string> ParseNames(
    std::string_view text, const std::vector<std::string_view>& allowed) {
  if (text == "all") return std::vector<std::string>(allowed.begin(), allowed.end());
  std::vector<std::string> names;
  for (const std::string_view name : SplitAt(text, ',')) {
    if (std::ranges::find(allowed, name) == allowed.end()) {
      return std::unexpected(std::string(name));
    }
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  }
  return names;
}

void AddCommonOptions(CLI::App& command, CommonOptions& options) {
  command.add_option("--traces", options.traces, "folder with the trace files")->required();
  command
      .add_option_function<std::string>(
          "--seeds",
          [&options](const std::string& text) {
            auto seeds = ParseSeeds(text);
            if (!seeds) throw CLI::ValidationError("--seeds", "`" + text + "` is no A-B or A,B,C");
            options.seeds = std::move(*seeds);
          },
          "A-B or A,B,C: one run per seed (default: 42-51)")
      ->type_name("SEEDS");
  static const std::map<std::string, Format> kFormats{
      {"table", Format::kTable}, {"json", Format::kJson}, {"csv", Format::kCsv}};
  command
      .add_option_function<std::string>(
          "-o,--output",
          [&options](const std::string& name) { options.format = kFormats.at(name); },
          "how to print the result")
      ->check(CLI::IsMember({"table", "json", "csv"}));
  command.add_option("--threads", options.threads, "0: one per core; the result is the same")
      ->check(CLI::Range(0U, 1024U));
  command.add_option("--policy-file", options.policy_file,
                     "policy file whose placement.score the policy Berth has");
}

int Fail(const TraceError& error) {
  fmt::print(stderr, "{}\n", error.ToString());
  return kBadInput;
}

std::expected<config::ScoreWeights, int> ReadWeights(const CommonOptions& options) {
  if (options.policy_file.empty()) return config::ScoreWeights();
  const auto text = ReadTraceFile(options.policy_file);
  if (!text) return std::unexpected(Fail(text.error()));
  const auto policy = config::DecodePolicy(*text, options.policy_file);
  if (policy) return policy->placement.score;
  for (const auto& error : policy.error()) fmt::print(stderr, "{}\n", error.ToString());
  return std::unexpected(kBadInput);
}

std::string TraceFolder(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  const auto inside = std::filesystem::path(folder) / name;
  return std::filesystem::is_directory(inside, ignored) ? inside.string() : folder;
}

std::string RenderJson(const std::vector<nlohmann::ordered_json>& rows) {
  std::string out = "[\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += "  " + rows[i].dump() + (i + 1 < rows.size() ? ",\n" : "\n");
  }
  return out + "]\n";
}

std::string RenderCsv(const std::vector<nlohmann::ordered_json>& rows) {
  std::string out;
  const auto line = [&out](const nlohmann::ordered_json& row, auto field) {
    bool first = true;
    for (const auto& [key, value] : row.items()) {
      if (!std::exchange(first, false)) out += ',';
      out += field(key, value);
    }
    out += '\n';
  };
  if (rows.empty()) return out;
  line(rows.front(), [](const std::string& key, const auto&) { return key; });
  for (const auto& row : rows) {
    line(row, [](const std::string&, const nlohmann::ordered_json& value) -> std::string {
      if (value.is_null()) return {};
      return value.is_string() ? value.template get<std::string>() : value.dump();
    });
  }
  return out;
}

}  // namespace berth::sim
