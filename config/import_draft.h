// Internal to config/import*.cc: a policy that is being built, with the notes about it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/policy_configuration.h"

namespace berth::config::internal {

using Json = nlohmann::json;

/// A queue of the policy to be, and what of the original was not carried over.
struct ImportedQueue {
  Queue queue;
  std::vector<std::string> notes;  ///< Comments over it, one line each.
};

/// The policy that an import puts together, and then prints.
class ImportDraft {
 public:
  /// The name of the peer's object as a queue name: a DNS label, not used yet. Adds a note if it
  /// had to be changed.
  std::string NameFor(std::string_view name, std::vector<std::string>& notes);
  /// `name`: from NameFor. The reference is valid until the next Add.
  ImportedQueue& Add(std::string name) {
    queues_.push_back({.queue = {.name = std::move(name)}, .notes = {}});
    return queues_.back();
  }
  std::vector<ImportedQueue>& queues() { return queues_; }
  /// Adds a comment to the head of the policy.
  void Note(std::string note) { notes_.push_back(std::move(note)); }

  /// Adds an amount (canonical units) of a resource; a note if Berth cannot count it exactly so.
  static void AddAmount(kube::ResourceList& list, const std::string& resource, std::int64_t amount,
                        const std::string& what, std::vector<std::string>& notes);
  /// Likewise from a quantity as a text or a number.
  static void AddQuantity(kube::ResourceList& list, const std::string& resource,
                          const Json& quantity, const std::string& what,
                          std::vector<std::string>& notes);
  /// The priority of a queue; a note that says what it decides, or that it cannot be carried over.
  static void TakePriority(const Json& value, ImportedQueue& imported);
  /// Levels of a Topology object: a list of node label keys, widest first.
  void SetLevels(const std::string& topology, const std::vector<std::string>& labels);

  /// The policy file; `head` is its first comment. Call once, at the end.
  std::string ToYaml(std::string_view head);

 private:
  void Settle();

  std::vector<ImportedQueue> queues_;
  std::vector<std::string> notes_;
  std::vector<TopologyLevel> levels_;
  std::string topology_;
};

/// The value at a JSON pointer, null if it is not there.
const Json& At(const Json& object, const char* pointer);
/// A number, or a text that is one: YAML decimals are read as texts.
std::optional<double> NumberIn(const Json& value);
/// The text at the pointer; empty if there is no text.
std::string TextAt(const Json& object, const char* pointer);

/// `metadata.name`.
std::string NameOf(const Json& object);

/// One project each: adds to `draft` what its `objects` say, and ignores objects of other kinds.
void ImportKueue(const std::vector<Json>& objects, ImportDraft& draft);
void ImportVolcano(const std::vector<Json>& objects, ImportDraft& draft);
void ImportKai(const std::vector<Json>& objects, ImportDraft& draft);

/// The objects of a kind and API group, in order.
std::vector<const Json*> OfKind(const std::vector<Json>& objects, std::string_view group,
                                std::string_view kind);

}  // namespace berth::config::internal
