#include "server/cli/import_command.h"

#include <fmt/format.h>

#include "config/decode.h"
#include "config/import.h"
#include "kube/terminal.h"
#include "server/cli/exit_codes.h"
#include "server/cli/read_objects.h"

namespace berth::server {
namespace {

int Fail(int code, const std::string& message) {
  kube::Write(stderr, fmt::format("berth import: {}\n", message));
  return code;
}

}  // namespace

int ImportCommand(const ImportOptions& options) {
  const auto peer = config::PeerNamed(options.peer);
  if (!peer) return Fail(kBadInput, options.peer + ": not a project that can be imported from");
  const bool live = options.files.empty();
  const auto objects = live ? ListObjects(options.kubeconfig, config::ResourcesOf(*peer))
                            : ReadObjects(options.files);
  if (!objects) return Fail(objects.error().code, objects.error().message);
  const std::string source =
      live ? std::string("the cluster") : fmt::format("{}", fmt::join(options.files, ", "));
  const auto policy = config::Import(*peer, *objects, source);
  if (!policy) return Fail(kBadInput, policy.error());
  kube::Write(stdout, *policy);
  // Never print a policy that Berth would refuse without a message about it.
  const auto decoded = config::DecodePolicy(*policy, "the imported policy");
  if (decoded) return 0;
  for (const auto& diagnostic : decoded.error()) {
    kube::Write(stderr, fmt::format("berth import: {}\n", diagnostic.ToString()));
  }
  return kBadInput;
}

}  // namespace berth::server
