// Kubernetes objects in a file, in the forms that kubectl prints and accepts.
#pragma once

#include <array>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace berth::config {

/// A kind as the API server serves it.
struct ApiResource {
  std::string_view group;                    ///< Empty: the core group.
  std::array<std::string_view, 2> versions;  ///< The newest first.
  std::string_view plural;
  std::string_view kind;
};

/// One object of a manifest.
struct Manifest {
  std::string kind;
  std::string name;  ///< metadata.name; empty where it is not a string.
  std::string json;  ///< The whole object. A missing UID is filled in, and the namespace of a Pod
                     ///< or of a group or queue of pods.
};

/// The objects in JSON, or in YAML with any number of documents; the items of Lists are returned
/// one by one. An error is one sentence.
std::expected<std::vector<Manifest>, std::string> ReadManifests(std::string_view text);

}  // namespace berth::config
