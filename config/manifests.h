// Kubernetes objects in a file, as kubectl prints and takes them.
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

struct Manifest {
  std::string kind;
  std::string name;  ///< metadata.name; empty where it is no string.
  std::string json;  ///< The whole object. A missing UID is filled in, and the namespace of a Pod
                     ///< or of a group or queue of pods.
};

/// The objects of JSON, or of YAML with any number of documents; Lists are taken apart. An error is
/// one sentence.
std::expected<std::vector<Manifest>, std::string> ReadManifests(std::string_view text);

}  // namespace berth::config
