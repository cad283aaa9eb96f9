// `berth import`: another project's queues as a PolicyConfiguration. Pure: objects in, YAML out,
// which DecodePolicy takes. What has no equal in Berth is said in comments where it was.
#pragma once

#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/manifests.h"
#include "config/policy_configuration.h"

namespace berth::config {

enum class Peer : std::uint8_t { kKueue, kVolcano, kKai };

/// `kueue`, `volcano`, `kai`.
std::optional<Peer> PeerNamed(std::string_view name);

/// What an import reads.
std::span<const ApiResource> ResourcesOf(Peer peer);

/// The policy's text, from objects of any kind (those that are not the peer's are left alone).
/// `source` is named in the head comment. Error: one sentence, where there is no queue at all.
std::expected<std::string, std::string> Import(Peer peer, const std::vector<Manifest>& objects,
                                               std::string_view source);

}  // namespace berth::config
