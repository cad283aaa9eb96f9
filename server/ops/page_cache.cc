#include "server/ops/page_cache.h"

#include <utility>

namespace berth::server {

PageCache::Page PageCache::Get(const std::string& key, const std::function<std::string()>& make) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto now = clock_();
    std::erase_if(known_, [&](const auto& known) { return now - known.second.asked >= life_; });
    const auto [it, fresh] = known_.try_emplace(key);
    if (fresh) it->second = {.entry = std::make_shared<Entry>(), .asked = now};
    entry = it->second.entry;
  }
  const std::lock_guard lock(entry->making);
  // An object that does not exist may be created at any moment, so it is looked up for each caller.
  if (entry->page == nullptr || entry->page->empty()) {
    entry->page = std::make_shared<const std::string>(make());
  }
  return entry->page;
}

}  // namespace berth::server
