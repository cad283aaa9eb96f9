// `berth why|queues|gangs|pods|nodes`: asks a running service's /api/v1 and prints the answer.
#pragma once

#include <functional>
#include <string>

#include "server/cli/page_output.h"

namespace berth::server {

inline constexpr const char* kDefaultUrl = "http://127.0.0.1:9090";

struct AskOptions {
  Question question = Question::kQueues;
  /// Empty: with a kubeconfig, the service behind its API server's proxy; else kDefaultUrl.
  std::string url{};
  std::string ns{};   ///< Empty: the kubeconfig's, else `default` for why and all for the others.
  std::string pod{};  ///< For why: a pod or gang, NAME, pod/NAME, gang/NAME or NAMESPACE/NAME.
  bool all_namespaces = false;  ///< Overrides `ns`.
  Wanted wanted{};              ///< For the other questions.
  Output output{};
  bool watch = false;  ///< True: the caller must use Watch() instead of Ask().
  // For a service with --ops-auth kubernetes, or with TLS: kubectl's options.
  std::string token_file{};
  std::string kubeconfig{};  ///< The address and the credentials, except for what `url` and other
                             ///< options give.
  std::string context{};     ///< In the kubeconfig; empty: the current one.
  std::string service = "berth-system/https:berth:ops";  ///< NAMESPACE/[SCHEME:]NAME:PORT
  std::string certificate_authority{};                   ///< Empty: the system's.
  std::string tls_server_name{};
  bool insecure_skip_tls_verify = false;
};

/// A command's output, and the process's exit code.
struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

/// One GET on the service. Codes: 0 success, 1 there is no such pod or item, or not for this caller
/// (401, 403), 2 wrong usage, 3 no service answers, or a file cannot be read.
Answer Ask(const AskOptions& options);

/// `-w`: the list, and then, as long as `again` returns true (it waits each time), the items that
/// have changed, without headers, and `NAMESPACE/NAME: gone`. Ends with the first failure.
Answer Watch(const AskOptions& options, const std::function<void(const std::string&)>& emit,
             const std::function<bool()>& again);

}  // namespace berth::server
