// Which objects of a resource a watcher has, so that a new list also shows which of them are gone.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace berth::kube {

class KnownKeys {
 public:
  /// A list begins. Objects may be used as they come; the record of an earlier list that failed
  /// half-way is dropped.
  void BeginReplace() {
    replacing_ = true;
    seen_.clear();
  }
  /// The object exists.
  void Add(const std::string& key) {
    if (replacing_) seen_.insert(key);
    known_.insert(key);
  }
  /// The object is gone. False: it was not known.
  bool Remove(const std::string& key) { return known_.erase(key) > 0; }
  /// The list is complete: forgets, and returns in order, the objects that it did not have.
  std::vector<std::string> EndReplace() {
    replacing_ = false;
    std::vector<std::string> gone;
    for (const std::string& key : known_) {
      if (!seen_.contains(key)) gone.push_back(key);
    }
    for (const std::string& key : gone) known_.erase(key);
    seen_ = {};
    std::ranges::sort(gone);
    return gone;
  }

 private:
  std::unordered_set<std::string> known_;
  bool replacing_ = false;
  std::unordered_set<std::string> seen_;  ///< Since BeginReplace; empty outside of a list.
};

}  // namespace berth::kube
