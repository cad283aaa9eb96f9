// `berth import`: another project's queues as a PolicyConfiguration. Pure: objects in, YAML out,
// which DecodePolicy accepts. Settings without an equivalent in Berth are noted in comments at
// their place.
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

/// The resources that an import reads.
std::span<const ApiResource> ResourcesOf(Peer peer);

/// The policy's text, from objects of any kind (objects that are not the peer's are ignored).
/// `source` is named in the head comment. Error: one sentence, if there is no queue at all.
std::expected<std::string, std::string> Import(Peer peer, const std::vector<Manifest>& objects,
                                               std::string_view source);

}  // namespace berth::config
