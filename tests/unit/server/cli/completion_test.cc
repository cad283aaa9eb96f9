// What is generated from the command line: completion and the manual page.
#include "server/cli/completion.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "server/cli/man_page.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::server {
namespace {

TEST_CASE("completion follows the commands", "[cli]") {
  CLI::App app{"An app"};
  CLI::App* command = app.add_subcommand("fly", "it's a [test]");
  std::string value;
  command->add_option("-o,--output", value, "how")->check(CLI::IsMember({"table", "json"}));
  bool fast = false;
  command->add_flag("--fast", fast, "hurry");
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = CompletionScript(app, "the-app", shell);
    REQUIRE(script);
    for (const char* word : {"fly", "output", "fast", "table json", "the-app"}) {
      CHECK(script->find(word) != std::string::npos);
    }
  }
  CHECK_FALSE(CompletionScript(app, "the-app", "csh"));
}

/// What bash offers after these words.
std::string BashOffers(const CLI::App& app, const std::vector<std::string>& words) {
  const berth::testing::TempFile script("completion", *CompletionScript(app, "the-app", "bash"));
  std::string line = "the-app";
  for (const std::string& word : words) line += " '" + word + "'";
  const std::string command = "bash -c \"source " + script.path() + "; COMP_WORDS=(" + line +
                              "); COMP_CWORD=" + std::to_string(words.size()) +
                              "; _the_app; echo \\${COMPREPLY[@]}\"";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  CHECK(pclose(pipe) == 0);
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

TEST_CASE("bash completes nested commands, their options and files", "[cli]") {
  CLI::App app{"An app"};
  CLI::App* outer = app.add_subcommand("simulate", "outer");
  CLI::App* inner = outer->add_subcommand("openb", "inner");
  std::string value;
  inner->add_option("--mode", value, "how")->check(CLI::IsMember({"fast", "slow"}));
  inner->add_option("--traces", value, "a folder");
  inner->add_option("--policy", value, "names")->type_name("NAME[,NAME]|all");
  app.add_subcommand("check", "files")->add_option("files", value, "files");
  CHECK(BashOffers(app, {"si"}) == "simulate");
  CHECK(BashOffers(app, {"simulate", "o"}) == "openb");
  CHECK(BashOffers(app, {"simulate", "openb", "--m"}) == "--mode");
  CHECK(BashOffers(app, {"simulate", "openb", "--mode", "f"}) == "fast");
  CHECK(
      BashOffers(app, {"simulate", "openb", "--traces", "/etc/passw"}).starts_with("/etc/passwd"));
  CHECK(BashOffers(app, {"simulate", "openb", "--policy", "/etc/passw"}).empty());
  CHECK(BashOffers(app, {"simulate", "--m"}).empty());
  CHECK(BashOffers(app, {"check", "/etc/passw"}).starts_with("/etc/passwd"));
}

TEST_CASE("kubectl's completion of the plugin", "[cli]") {
  CLI::App app{"An app"};
  CLI::App* command = app.add_subcommand("fly", "takes off");
  std::string value;
  command->add_option("-o,--output", value, "how")->check(CLI::IsMember({"table", "json"}));
  command->add_option("--policy", value, "a file");
  app.add_subcommand("flee", "runs");
  const auto complete = [&](std::vector<std::string> words) {
    return KubectlCompletions(app, words);
  };
  CHECK(complete({}) == "fly\ttakes off\nflee\truns\n:4\n");
  CHECK(complete({"fle"}) == "flee\truns\n:4\n");
  CHECK(complete({"fly", "--o"}) == "--output\thow\n:4\n");
  CHECK(complete({"fly", "-o", ""}) == "table\t\njson\t\n:4\n");
  CHECK(complete({"fly", "-o", "json", "--policy", "x"}) == ":0\n");
  CHECK(complete({"fly", ""}) == ":0\n");
}

TEST_CASE("the manual page has every command and option, and no text of ours is a troff request",
          "[cli]") {
  CLI::App app{"An app"};
  CLI::App* command = app.add_subcommand("fly", ".br is said, 'tis \\fBbold\\fR");
  std::string value = "table";
  command->add_option("-o,--output", value, "how")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  std::string where;
  command->add_option("place", where, "where");
  command->add_subcommand("high", "inner");
  const std::string page = ManPage(app, "1.2");
  for (const char* piece :
       {".TH BERTH 1 \"\" \"berth 1.2\"", ".SS \\fBfly\\fR \\fIPLACE\\fR \\fICOMMAND\\fR\n",
        "\n\\&.br is said, 'tis \\efBbold\\efR.\n",
        "\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fIVALUE\\fR\nhow; one of table json (default: table)",
        ".SS \\fBfly high\\fR\ninner."}) {
    INFO(piece << "\n" << page);
    CHECK(page.find(piece) != std::string::npos);
  }
}

}  // namespace
}  // namespace berth::server
