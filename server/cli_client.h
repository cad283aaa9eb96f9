// `berth why|queues|gangs|nodes`: asks a running service's /api/v1 and prints the answer.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace berth::server {

enum class Question : std::uint8_t { kWhy, kQueues, kGangs, kNodes };
enum class OutputFormat : std::uint8_t { kTable, kWide, kJson, kYaml };

struct AskOptions {
  Question question = Question::kQueues;
  std::string url = "http://127.0.0.1:9090";
  std::string ns{};   ///< Empty: `default` for why, every namespace for gangs.
  std::string pod{};  ///< For why: NAME, pod/NAME or NAMESPACE/NAME.
  OutputFormat output = OutputFormat::kTable;
  // For a service under --ops-auth kubernetes, and one behind TLS: kubectl's options.
  std::string token_file{};
  std::string kubeconfig{};             ///< Its current user's token; nothing else is read from it.
  std::string certificate_authority{};  ///< Empty: the system's.
  std::string tls_server_name{};
  bool insecure_skip_tls_verify = false;
};

/// What a command has to say, and the process's exit code.
struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

/// One GET on the service. Codes: 0 fine, 1 no such pod, or not for this caller (401, 403), 2
/// wrong usage, 3 no service there.
Answer Ask(const AskOptions& options);

/// The page as it is printed, its trailing newline included. Total over any JSON: what is missing
/// or of another type shows as `-`.
std::string Print(Question question, const nlohmann::ordered_json& page, OutputFormat format);

}  // namespace berth::server
