#include "server/drivers/usage_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "kube/label_value.h"

namespace berth::server {
namespace {

using cluster::Usage;
using cluster::UsageEntry;
using cluster::UsageMeter;
using cluster::UsageRecord;
using Json = nlohmann::ordered_json;

/// Milliseconds: some 285,000 years.
constexpr std::int64_t kMostTime = std::int64_t{1} << 53U;

constexpr const char* kUntil = "until";
constexpr const char* kQueues = "queues";
constexpr const char* kUsers = "users";
constexpr const char* kOtherQueues = "otherQueues";
constexpr const char* kOtherUsers = "otherUsers";
constexpr const char* kQueue = "queue";
constexpr const char* kUser = "user";
constexpr const char* kNamed = "named";
constexpr const char* kUsed = "deviceMilliseconds";
constexpr const char* kPast = "pastMillidevices";

Json Entries(const std::vector<UsageEntry>& entries) {
  Json list = Json::array();
  for (const UsageEntry& entry : entries) {
    Json item{{kQueue, entry.queue}};
    if (!entry.user.empty()) item[kUser] = entry.user;
    if (!entry.named) item[kNamed] = false;
    item[kUsed] = entry.used;
    if (!entry.past.empty()) item[kPast] = entry.past;
    list.push_back(std::move(item));
  }
  return list;
}

std::string UsageText(const UsageRecord& record) {
  const Json json{{kUntil, record.until},
                  {kQueues, Entries(record.queues)},
                  {kUsers, Entries(record.users)},
                  {kOtherQueues, record.other_queues},
                  {kOtherUsers, record.other_users}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool IsResource(std::string_view name) {
  constexpr std::size_t kLongest = 317;  // a prefix, a slash and a name
  return !name.empty() && name.size() <= kLongest && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  });
}

/// Reads the parts of a record; whatever is wrong is noted and left out.
class UsageDecoder {
 public:
  explicit UsageDecoder(const Json& json) : json_(json) {}

  DecodedUsage Decode() {
    if (!json_.is_object()) {
      Leave("it is not a JSON object");
      return std::move(decoded_);
    }
    UsageRecord& record = decoded_.record;
    if (const auto until = Amount(At(json_, kUntil), kMostTime)) {
      record.until = *until;
    } else {
      Leave("until");
    }
    record.other_queues = UsageOf(At(json_, kOtherQueues), kOtherQueues);
    record.other_users = UsageOf(At(json_, kOtherUsers), kOtherUsers);
    record.queues = EntriesOf(kQueues, /*users=*/false);
    record.users = EntriesOf(kUsers, /*users=*/true);
    cluster::LimitEntries(record.queues, UsageMeter::kMostQueues, record.other_queues);
    cluster::LimitEntries(record.users, UsageMeter::kMostUsers, record.other_users);
    return std::move(decoded_);
  }

 private:
  static const Json& At(const Json& json, const char* key) {
    static const Json kNothing;
    const auto it = json.find(key);
    return it == json.end() ? kNothing : *it;
  }
  static std::string NameAt(const Json& json, const char* key) {
    const Json& name = At(json, key);
    return name.is_string() ? name.get<std::string>() : std::string();
  }
  static std::optional<std::int64_t> Amount(const Json& json,
                                            std::int64_t most = cluster::kMostUsage) {
    if (!json.is_number_unsigned()) return std::nullopt;  // so are whole numbers from 0 on
    const auto amount = json.get<std::uint64_t>();
    if (amount > static_cast<std::uint64_t>(most)) return std::nullopt;
    return static_cast<std::int64_t>(amount);
  }

  void Leave(std::string what) {
    constexpr std::size_t kMost = 5;
    if (decoded_.problems.size() < kMost) decoded_.problems.push_back(std::move(what));
  }

  Usage UsageOf(const Json& json, const std::string& of, std::int64_t most = cluster::kMostUsage) {
    Usage used;
    if (!json.is_object()) {
      if (!json.is_null()) Leave(of);
      return used;
    }
    for (const auto& [resource, value] : json.items()) {
      const auto amount = Amount(value, most);
      if (amount && IsResource(resource)) {
        used[resource] = *amount;
      } else {
        Leave("an amount of " + of);
      }
    }
    return used;
  }

  std::vector<UsageEntry> EntriesOf(const char* key, bool users) {
    std::vector<UsageEntry> entries;
    std::set<std::pair<std::string, std::string>> seen;
    const Json& list = At(json_, key);
    if (!list.is_array()) Leave(key);
    for (const Json& item : list.is_array() ? list : Json::array()) {
      UsageEntry entry;
      if (item.is_object()) {
        entry.queue = NameAt(item, kQueue);
        if (users) entry.user = NameAt(item, kUser);
        entry.named = At(item, kNamed) != false;
      }
      // Names of queues and namespaces are such values, too.
      const bool named = !entry.queue.empty() && kube::IsLabelValue(entry.queue) &&
                         kube::IsLabelValue(entry.user) && entry.user.empty() != users;
      if (!named || !seen.emplace(entry.queue, entry.user).second) {
        Leave(std::string("an entry of ") + key);
        continue;
      }
      entry.used = UsageOf(At(item, kUsed), entry.queue);
      if (!users) entry.past = UsageOf(At(item, kPast), entry.queue, cluster::kMostPast);
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  const Json& json_;
  DecodedUsage decoded_;
};

}  // namespace

std::string EncodeUsage(UsageRecord record, std::size_t most_bytes) {
  std::string text = UsageText(record);
  while (text.size() > most_bytes && (!record.users.empty() || !record.queues.empty())) {
    auto& entries = record.users.empty() ? record.queues : record.users;
    auto& other = record.users.empty() ? record.other_queues : record.other_users;
    cluster::LimitEntries(entries, entries.size() / 2, other);
    text = UsageText(record);
  }
  return text;
}

DecodedUsage DecodeUsage(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return UsageDecoder(json).Decode();
}

}  // namespace berth::server
