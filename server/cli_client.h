// `berth why|queues|gangs|pods|nodes`: asks a running service's /api/v1 and prints the answer.
#pragma once

#include <string>

#include "server/page_output.h"

namespace berth::server {

struct AskOptions {
  Question question = Question::kQueues;
  std::string url = "http://127.0.0.1:9090";
  std::string ns{};   ///< Empty: `default` for why, every namespace for gangs and pods.
  std::string pod{};  ///< For why: a pod or gang, NAME, pod/NAME, gang/NAME or NAMESPACE/NAME.
  bool all_namespaces = false;  ///< Whatever `ns` says.
  Wanted wanted{};              ///< For the others.
  Output output{};
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

/// One GET on the service. Codes: 0 fine, 1 there is no such pod or item, or not for this caller
/// (401, 403), 2 wrong usage, 3 no service there, or a file that cannot be read.
Answer Ask(const AskOptions& options);

}  // namespace berth::server
