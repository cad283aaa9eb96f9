#include "sim/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>

#include "config/decode.h"
#include "kube/terminal.h"

namespace berth::sim {

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

void AddSeedsOption(CLI::App& command, std::vector<std::uint64_t>& seeds, const std::string& help) {
  command
      .add_option_function<std::string>(
          "--seeds",
          [&seeds](const std::string& text) {
            auto parsed = ParseSeeds(text);
            if (!parsed)
              throw CLI::ValidationError(
                  "--seeds",
                  "`" + text + "` is not a range A-B or list A,B,C of at most 10,000 seeds");
            seeds = std::move(*parsed);
          },
          help)
      ->type_name("SEEDS");
}

void AddOutputOption(CLI::App& command, Format& format) {
  static const std::map<std::string, Format> kFormats{
      {"table", Format::kTable}, {"json", Format::kJson}, {"csv", Format::kCsv}};
  command
      .add_option_function<std::string>(
          "-o,--output", [&format](const std::string& name) { format = kFormats.at(name); },
          "format of the result")
      ->check(CLI::IsMember({"table", "json", "csv"}));
}

CLI::Validator NumberFrom(double low, double high) {
  const std::string range = fmt::format("FLOAT in [{} - {}]", low, high);
  return CLI::Validator(
      [=](const std::string& text) {
        double number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const bool is = error == std::errc{} && end == text.data() + text.size();
        return is && number >= low && number <= high ? std::string()
                                                     : fmt::format("`{}` is not a {}", text, range);
      },
      range);
}

void AddThreadsOption(CLI::App& command, unsigned& threads) {
  command
      .add_option("--threads", threads,
                  "number of threads, which does not change the result; 0: one per core")
      ->check(CLI::Range(0U, 1024U));
}

void AddNamesOption(CLI::App& command, const std::string& name, std::vector<std::string>& chosen,
                    const std::vector<std::string_view>& allowed, const std::string& help) {
  command
      .add_option_function<std::string>(
          name,
          [name, &chosen, allowed](const std::string& text) {
            auto parsed = ParseNames(text, allowed);
            if (!parsed) {
              throw CLI::ValidationError(name, fmt::format("`{}` is not one of {}", parsed.error(),
                                                           fmt::join(allowed, " ")));
            }
            chosen = std::move(*parsed);
          },
          help)
      ->type_name("NAME[,NAME]|all");
}

void AddAgainstOption(CLI::App& command, std::string& against) {
  command.add_option("--against", against, "the policy that others are compared with")
      ->capture_default_str();
}

void CheckAgainst(const CLI::App& command, const std::string& against,
                  const std::vector<std::string>& policies) {
  if (command.count("--against") == 0 || Contains(policies, against)) return;
  throw CLI::ValidationError("--against",
                             fmt::format("`{}` is not one of the compared policies: {}", against,
                                         fmt::join(policies, " ")));
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void AddCommonOptions(CLI::App& command, CommonOptions& options) {
  command.add_option("--traces", options.traces, "folder with the trace files")->required();
  AddSeedsOption(command, options.seeds, "A-B or A,B,C: one run per seed (default: 42-51)");
  AddOutputOption(command, options.format);
  AddThreadsOption(command, options.threads);
  command.add_option("--policy-file", options.policy_file,
                     "policy file whose placement.score the policy `Berth` uses");
}

int Fail(const InputError& error) {
  kube::Write(stderr, fmt::format("{}\n", error.ToString()));
  return error.unreadable ? kEnvironment : kBadInput;
}

std::expected<config::PolicyConfiguration, int> ReadPolicy(const std::string& file) {
  if (file.empty()) return config::PolicyConfiguration();
  const auto text = ReadInputFile(file);
  if (!text) return std::unexpected(Fail(text.error()));
  auto policy = config::DecodePolicy(*text, file);
  if (policy) return *std::move(policy);
  for (const auto& error : policy.error())
    kube::Write(stderr, fmt::format("{}\n", error.ToString()));
  return std::unexpected(kBadInput);
}

int WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return kFine;
  kube::Write(stderr, fmt::format("{}: cannot be written\n", path));
  return kEnvironment;
}

std::string TraceFolder(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  const auto inside = std::filesystem::path(folder) / name;
  return std::filesystem::is_directory(inside, ignored) ? inside.string() : folder;
}

std::optional<PodList> FindPodList(const std::string& folder, const std::string& text) {
  constexpr std::size_t kMaxName = 128;
  const std::filesystem::path path(text);
  const std::string name = path.extension() == ".csv" ? path.stem().string() : text;
  const bool good =
      !name.empty() && name.size() <= kMaxName && std::ranges::all_of(name, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
      });
  if (!good) return std::nullopt;
  if (name != text) return PodList{.name = name, .path = text};
  return PodList{.name = name, .path = folder + "/openb_pod_list_" + name + ".csv"};
}

CLI::Validator IsPodList() {
  return CLI::Validator(
      [](const std::string& text) {
        return FindPodList("", text)
                   ? std::string()
                   : fmt::format("{:?} is neither a list's name nor a CSV file", text);
      },
      "NAME|FILE.csv", "IsPodList");
}

}  // namespace berth::sim
