#include "server/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "server/cli/command_info.h"

namespace berth::server {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

/// For use inside '...' of a shell.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string FunctionName(std::string_view program) {
  std::string name = "_";
  for (const char c : program) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

std::string WordsOf(const CommandInfo& command) {
  std::vector<std::string> words = command.choices;
  for (const OptionInfo& option : command.options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return Join(words);
}

/// A command with its whole path: `simulate openb`.
struct PathOf {
  std::string path;
  const CommandInfo* command = nullptr;
};

void Collect(const std::vector<CommandInfo>& commands, const std::string& before,
             std::vector<PathOf>& all) {
  for (const CommandInfo& command : commands) {
    const std::string path = before.empty() ? command.name : before + " " + command.name;
    all.push_back({path, &command});
    Collect(command.subcommands, path, all);
  }
}

std::string BashValues(const OptionInfo& option) {
  if (!option.choices.empty()) {
    return fmt::format(R"(COMPREPLY=($(compgen -W {} -- "$cur")))", Quoted(Join(option.choices)));
  }
  return option.is_file ? R"(COMPREPLY=($(compgen -f -- "$cur")))" : "COMPREPLY=()";
}

std::string Bash(const CommandInfo& root, const std::vector<CommandInfo>& commands,
                 std::string_view program) {
  std::vector<PathOf> all;
  Collect(commands, "", all);
  std::vector<std::string> names;
  for (const CommandInfo& command : commands) names.push_back(command.name);
  std::string paths;
  std::string values;
  std::string words;
  for (const auto& [path, command] : all) {
    paths += (paths.empty() ? "" : "|") + Quoted(path);
    words += fmt::format("    {}) words={}; files={} ;;\n", Quoted(path), Quoted(WordsOf(*command)),
                         command->choices.empty() && !command->arguments.empty() ? 1 : 0);
    for (const OptionInfo& option : command->options) {
      if (!option.takes_value) continue;
      for (const std::string& name : option.names) {
        values +=
            fmt::format("    {}) {}; return ;;\n", Quoted(path + ":" + name), BashValues(option));
      }
    }
  }
  return fmt::format(
      R"(# bash completion for {program}; load it with: source <({program} completion bash)
{function}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= words files word
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W {top} -- "$cur"))
    return
  fi
  # The longest path of commands at the start of the line.
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "${{command:+$command }}$word" in
      {paths}) command="${{command:+$command }}$word" ;;
      *) break ;;
    esac
  done
  case "$command:$prev" in
{values}  esac
  case "$command" in
{words}    *) return ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if ((files)) && [[ ${{#COMPREPLY[@]}} -eq 0 && $cur != -* ]]; then
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}}
complete -o filenames -F {function} {program}
)",
      fmt::arg("program", program), fmt::arg("function", FunctionName(program)),
      fmt::arg("top", Quoted(Join(names) + " " + WordsOf(root))), fmt::arg("paths", paths),
      fmt::arg("values", values), fmt::arg("words", words));
}

/// Without the characters that are special to _arguments and _describe.
std::string ZshHelp(const std::string& help) {
  std::string out;
  for (const char c : help) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string Zsh(const CommandInfo& root, const std::vector<CommandInfo>& commands,
                std::string_view program) {
  const auto arguments = [](const CommandInfo& command) {
    std::string out;
    for (const OptionInfo& option : command.options) {
      for (const std::string& name : option.names) {
        std::string spec = name + "[" + ZshHelp(option.help) + "]";
        if (option.takes_value) {
          spec += ":value:";
          if (!option.choices.empty()) spec += "(" + Join(option.choices) + ")";
          if (option.choices.empty() && option.is_file) spec += "_files";
        }
        out += " \\\n        " + Quoted(spec);
      }
    }
    out += " \\\n        " + Quoted(command.choices.empty()
                                        ? "*:file:_files"
                                        : "1:value:(" + Join(command.choices) + ")");
    return out;
  };
  std::string list;
  std::string cases;
  for (const CommandInfo& command : commands) {
    list += "    " + Quoted(command.name + ":" + ZshHelp(command.help)) + "\n";
    for (const CommandInfo& inner : command.subcommands) {
      cases += fmt::format(
          "    {})\n      shift words\n      ((CURRENT--))\n      _arguments{}\n"
          "      ;;\n",
          Quoted(command.name + " " + inner.name), arguments(inner));
    }
    cases += fmt::format("    {0}|{0}' '*)\n      _arguments{1}\n      ;;\n", Quoted(command.name),
                         arguments(command));
  }
  return fmt::format(R"(#compdef {program}
# zsh completion for {program}; load it with: source <({program} completion zsh)
{function}() {{
  local -a commands
  commands=(
{list}  )
  if ((CURRENT == 2)); then
    _describe command commands
    compadd -- {top}
    return
  fi
  local command=$words[2]
  if ((CURRENT > 3)); then command="$command $words[3]"; fi
  shift words
  ((CURRENT--))
  case $command in
{cases}  esac
}}
compdef {function} {program}
)",
                     fmt::arg("program", program), fmt::arg("function", FunctionName(program)),
                     fmt::arg("list", list), fmt::arg("cases", cases),
                     fmt::arg("top", WordsOf(root)));
}

std::string Fish(const CommandInfo& root, const std::vector<CommandInfo>& commands,
                 std::string_view program) {
  std::string out = fmt::format(
      "# fish completion for {0}; load it with: {0} completion fish | source\ncomplete -c {0} -f\n",
      program);
  const auto add = [&](const CommandInfo& command, const std::string& condition) {
    for (const OptionInfo& option : command.options) {
      out += fmt::format("complete -c {} -n {}", program, Quoted(condition));
      for (const std::string& name : option.names) {
        const bool is_long = name.starts_with("--");
        out += fmt::format(" {} {}", is_long ? "-l" : (name.size() == 2 ? "-s" : "-o"),
                           name.substr(is_long ? 2 : 1));
      }
      if (option.takes_value) out += option.is_file ? " -r -F" : " -x";
      if (!option.choices.empty()) out += " -a " + Quoted(Join(option.choices));
      out += " -d " + Quoted(option.help) + "\n";
    }
    if (!command.choices.empty()) {
      out += fmt::format("complete -c {} -n {} -a {}\n", program, Quoted(condition),
                         Quoted(Join(command.choices)));
    }
  };
  add(root, "__fish_use_subcommand");
  for (const CommandInfo& command : commands) {
    out += fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d {}\n", program,
                       command.name, Quoted(command.help));
    const std::string seen = "__fish_seen_subcommand_from " + command.name;
    add(command, seen);
    for (const CommandInfo& inner : command.subcommands) {
      add(inner, seen + "; and __fish_seen_subcommand_from " + inner.name);
    }
  }
  return out;
}

}  // namespace

std::optional<std::string> CompletionScript(const CLI::App& app, std::string_view program,
                                            std::string_view shell) {
  CommandInfo root = Describe(app);
  root.choices.clear();  // its subcommands are listed with their help
  const std::vector<CommandInfo> commands = root.subcommands;
  if (shell == "bash") return Bash(root, commands, program);
  if (shell == "zsh") return Zsh(root, commands, program);
  if (shell == "fish") return Fish(root, commands, program);
  return std::nullopt;
}

std::string KubectlCompletions(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string last = words.empty() ? std::string() : words.back();
  std::string out;
  const auto offer = [&](const std::string& word, const std::string& help) {
    if (word.starts_with(last)) out += word + "\t" + help + "\n";
  };
  const CommandInfo root = Describe(app);
  const CommandInfo* command = &root;
  const OptionInfo* open = nullptr;  // an option whose value is next
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    open = nullptr;
    for (const CommandInfo& inner : command->subcommands) {
      if (inner.name == words[i]) command = &inner;
    }
    for (const OptionInfo& option : command->options) {
      const bool named = std::ranges::find(option.names, words[i]) != option.names.end();
      if (named && option.takes_value) open = &option;
    }
  }
  bool files = false;
  if (open != nullptr) {
    for (const std::string& choice : open->choices) offer(choice, "");
    files = open->choices.empty() && open->is_file;
  } else if (last.starts_with('-')) {
    for (const OptionInfo& option : command->options) {
      for (const std::string& name : option.names) offer(name, option.help);
    }
  } else if (!command->subcommands.empty()) {
    for (const CommandInfo& inner : command->subcommands) offer(inner.name, inner.help);
  } else {
    for (const std::string& choice : command->choices) offer(choice, "");
    files = command->choices.empty();
  }
  return out + (files ? ":0\n" : ":4\n");
}

}  // namespace berth::server
