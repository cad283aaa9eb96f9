#include "server/cli/man_page.h"

#include <fmt/format.h>

#include <cctype>

#include "server/cli/command_info.h"

namespace berth::server {
namespace {

/// Text that troff prints unchanged.
std::string Plain(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_start = c == '\n';
  }
  return out;
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string OptionEntry(const OptionInfo& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", Plain(name));
  }
  if (option.takes_value) names += " \\fIVALUE\\fR";
  std::string help = option.help;
  if (!option.choices.empty()) {
    help += "; one of";
    for (const std::string& choice : option.choices) help += " " + choice;
  }
  if (!option.initial.empty()) help += fmt::format(" (default: {})", option.initial);
  return fmt::format(".TP\n{}\n{}\n", names, Plain(help));
}

/// `path`: the words before this command's own, followed by a blank.
std::string CommandEntry(const CommandInfo& command, const std::string& path) {
  const std::string name = path + command.name;
  std::string usage = fmt::format("\\fB{}\\fR", Plain(name));
  for (const std::string& argument : command.arguments) {
    usage += fmt::format(" \\fI{}\\fR", Plain(Upper(argument)));
  }
  if (!command.subcommands.empty()) usage += " \\fICOMMAND\\fR";
  std::string out = fmt::format(".SS {}\n{}.\n", usage, Plain(command.help));
  for (const OptionInfo& option : command.options) {
    if (option.names.back() != "--help") out += OptionEntry(option);
  }
  for (const CommandInfo& inner : command.subcommands) out += CommandEntry(inner, name + " ");
  return out;
}

}  // namespace

std::string ManPage(const CLI::App& app, std::string_view version) {
  const CommandInfo root = Describe(app);
  std::string commands;
  for (const CommandInfo& command : root.subcommands) commands += CommandEntry(command, "");
  return fmt::format(R"(.TH BERTH 1 "" "berth {version}" "User Commands"
.SH NAME
berth, kubectl\-berth \- a kube\-scheduler extender for AI clusters
.SH SYNOPSIS
\fBberth\fR \fICOMMAND\fR [\fIOPTION\fR...] [\fIARGUMENT\fR...]
.br
\fBkubectl berth\fR \fICOMMAND\fR [\fIOPTION\fR...] [\fIARGUMENT\fR...]
.SH DESCRIPTION
Berth gives stock Kubernetes gangs, queues with limits, dense packing and GPU topology for AI work.
\fBberth serve\fR is the service beside kube\-scheduler; the other commands ask it, check its
policy, and replay or simulate clusters.
.SH COMMANDS
{commands}.SH EXIT STATUS
.TP
0
All is well.
.TP
1
What was asked or checked is wrong, or is not there: a policy, a pod, a trace.
.TP
2
The command line is wrong.
.TP
3
A file, a port, the service or the API server cannot be used.
.SH ENVIRONMENT
.TP
\fBBERTH_URL\fR
Where \fBwhy\fR, \fBqueues\fR, \fBgangs\fR, \fBpods\fR and \fBnodes\fR ask.
.SH EXAMPLES
.EX
berth why research/train\-7\-0
kubectl berth queues \-o wide
berth check policy.yaml \-\-scheduler\-config kube\-scheduler\-config.yaml
source <(berth completion bash)
.EE
)",
                     fmt::arg("version", version), fmt::arg("commands", commands));
}

}  // namespace berth::server
