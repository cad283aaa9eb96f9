// The policy file: strict decoding, the canonical form that decodes to the same policy, and the
// schema for editors. Its keys are in policy_keys.h; docs/policy.md is their reference.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "config/policy_configuration.h"
#include "config/yaml_reader.h"

namespace berth::config {

inline constexpr std::string_view kPolicyApiVersion = "berth.dev/v1alpha1";
inline constexpr std::string_view kPolicyKind = "PolicyConfiguration";

/// Decodes one policy file. Absent keys keep their defaults. Anything else that is not exactly a
/// policy (unknown or duplicate keys, wrong types, impossible values, a second document) is an
/// error; all errors are returned together, in document order. `file_name` is only for messages.
/// Safe on any bytes; never throws.
std::expected<PolicyConfiguration, std::vector<Diagnostic>> DecodePolicy(
    std::string_view yaml, std::string_view file_name);

/// What this release understands of a policy that a newer release accepted and saved.
struct StoredPolicy {
  PolicyConfiguration policy;
  std::vector<Diagnostic> left_out;  ///< What is not understood here, in document order.
};

/// As DecodePolicy, but parts that are not understood are left out and reported instead of refused:
/// after a rollback the saved policy may hold keys and values of the newer release. This never
/// loosens a restriction: a queue whose quota or limit is not understood admits no pods, a queue
/// without a valid name of its own does not exist, and every other value falls back to its default,
/// which enforces. Refused is a text that is not YAML, or not a policy of this version.
std::expected<StoredPolicy, std::vector<Diagnostic>> DecodeStoredPolicy(std::string_view yaml,
                                                                        std::string_view file_name);

/// The policy as YAML with every key. DecodePolicy of it gives `policy` back, for every policy that
/// DecodePolicy can return.
std::string EncodePolicy(const PolicyConfiguration& policy);

/// A JSON schema of the policy file. config/schema.json is a copy of it.
std::string PolicySchema();

/// Every key that a policy may have, as `queues[].quota`, in the order of the reference.
std::vector<std::string> PolicyKeyPaths();

}  // namespace berth::config
