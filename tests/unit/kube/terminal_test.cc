// What others wrote must not act on the terminal of who reads it.
#include "kube/terminal.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

TEST_CASE("text for a terminal has no control characters", "[unit][kube]") {
  struct Row {
    std::string text;
    std::string shown;
  };
  const std::vector<Row> rows = {
      {"pretrain-70b", "pretrain-70b"},
      {"x\x1b[2J\n\r\ty", R"(x\u001b[2J\n\r\ty)"},
      {std::string("a\0b", 3), R"(a\u0000b)"},
      {"del\x7f", R"(del\u007f)"},
      {"csi \u009b2J", R"(csi \u009b2J)"},
      {"\u202egnp.exe", R"(\u202egnp.exe)"},
      {"zero\u200bwidth \ufeff \u2028", R"(zero\u200bwidth \ufeff \u2028)"},
      {"tag \U000e0041", R"(tag \udb40\udc41)"},
      {"Zürich 東京 🚢", "Zürich 東京 🚢"},
      {"\x9b\xff cut \xe6\x9d", "\uFFFD\uFFFD cut \uFFFD\uFFFD"},
      {"overlong \xc0\x9b, surrogate \xed\xa0\x80",
       "overlong \uFFFD\uFFFD, surrogate \uFFFD\uFFFD\uFFFD"},
      {R"(back\slash)", R"(back\slash)"},
  };
  for (const Row& row : rows) {
    CHECK(Printable(row.text) == row.shown);
    CHECK(Printable(row.shown) == row.shown);
  }
  CHECK(PrintableLines("a\tb\n\x1b[0m\r\n") == "a\tb\n\\u001b[0m\\r\n");
}

TEST_CASE("JSON stays the same JSON", "[unit][kube]") {
  const nlohmann::json page{{"na\x7fme", "x\x1b\n\u009b\u202e\U000e0041"}};
  CHECK(nlohmann::json::parse(PrintableLines(page.dump(2))) == page);
}

TEST_CASE("commands print through Write", "[unit][kube]") {
  // Those draw on the terminal, or write what is not for one.
  const std::set<std::string> own = {"server/demo/demo.cc", "server/drivers/decision_log.cc",
                                     "sim/experiments/parallel.cc"};
  const std::regex printing(R"(fmt::print\(|std::printf|std::puts|std::fputs|std::fwrite)");
  const std::filesystem::path root(BERTH_SOURCE_DIR);
  for (const char* folder :
       {"cluster", "config", "engine", "host", "kube", "policy", "server", "sim", "topology"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string file = std::filesystem::relative(entry.path(), root).string();
      if (!file.ends_with(".cc") || own.contains(file) || file == "kube/terminal.cc") continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        INFO(file << ": " << line);
        CHECK_FALSE(std::regex_search(line, printing));
      }
    }
  }
}

}  // namespace
}  // namespace berth::kube
