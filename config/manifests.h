// Kubernetes objects in a file, as kubectl prints and takes them.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace berth::config {

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
