#include "cluster/usage_meter.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "cluster/decay.h"

namespace berth::cluster {
namespace {

constexpr __int128 kThousand = 1'000;
constexpr __int128 kMostTotal = kThousand * kMostUsage;
/// So that averages of a few thousandths decay, too.
constexpr std::int64_t kPastScale = std::int64_t{1} << 16U;

std::int64_t Scaled(std::int64_t milli) {
  return std::clamp<std::int64_t>(milli, 0, kMostPast) * kPastScale;
}

/// Of all resources together: the least use comes first.
__int128 Sum(const Usage& used) {
  __int128 sum = 0;
  for (const auto& [resource, amount] : used) sum += amount;
  return sum;
}

}  // namespace

void AddUsage(Usage& sum, const Usage& more) {
  for (const auto& [resource, amount] : more) {
    std::int64_t& into = sum[resource];
    into += std::min(amount, kMostUsage - into);
  }
}

void LimitEntries(std::vector<UsageEntry>& entries, std::size_t most, Usage& other) {
  if (entries.size() <= most) return;
  std::ranges::stable_sort(entries, std::ranges::greater{},
                           [](const UsageEntry& entry) { return Sum(entry.used); });
  for (std::size_t i = most; i < entries.size(); ++i) AddUsage(other, entries[i].used);
  entries.resize(most);
  std::ranges::sort(entries, {},
                    [](const UsageEntry& entry) { return std::tie(entry.queue, entry.user); });
}

// --- Accounts ------------------------------------------------------------------------------------

void UsageMeter::Account::Line::Advance(std::int64_t now, std::int64_t half_life) {
  if (now <= at) return;
  Add(holds, at, now);
  const std::int64_t held = Scaled(holds);
  past = held + Decayed(past - held, now - at, half_life);
  at = now;
}

void UsageMeter::Account::Line::Add(std::int64_t milli, std::int64_t from, std::int64_t to) {
  total = std::min(kMostTotal, total + static_cast<__int128>(milli) * (__int128{to} - from));
}

void UsageMeter::Account::Hold(std::string_view resource, std::int64_t milli, std::int64_t from,
                               std::int64_t now) {
  auto line = lines_.find(resource);
  if (line == lines_.end()) line = lines_.try_emplace(std::string(resource)).first;
  Line& counted = line->second;
  counted.Advance(now, half_life_);
  if (milli > 0 && from < now) {
    counted.Add(milli, from, now);
    const std::int64_t held = Scaled(milli);
    counted.past =
        std::min(Scaled(kMostPast), counted.past + held - Decayed(held, now - from, half_life_));
  }
  counted.holds += milli;
}

bool UsageMeter::Account::idle() const {
  return std::ranges::all_of(lines_, [](const auto& line) { return line.second.holds == 0; });
}

void UsageMeter::Account::Rest(std::int64_t now) {
  for (auto& [resource, line] : lines_) {
    line.Advance(now, half_life_);
    line.holds = 0;
  }
}

Usage UsageMeter::Account::Until(std::int64_t now) const {
  Usage used;
  for (auto [resource, line] : lines_) {
    line.Advance(now, half_life_);
    used[resource] = static_cast<std::int64_t>(line.total / kThousand);
  }
  return used;
}

Usage UsageMeter::Account::Past(std::int64_t now) const {
  Usage past;
  for (auto [resource, line] : lines_) {
    line.Advance(now, half_life_);
    const std::int64_t average = line.past / kPastScale;
    if (average > 0) past[resource] = average;
  }
  return past;
}

// --- The meter -----------------------------------------------------------------------------------

UsageMeter::UsageMeter(const UsageRecord& record, std::int64_t at)
    : past_queues_(record.other_queues), past_users_(record.other_users) {
  for (const UsageEntry& entry : record.queues) {
    Account& account = queues_[entry.queue];
    Restore(account, entry, at);
    account.named_ = entry.named && named_ < kNamedQueues;
    named_ += account.named_ ? 1 : 0;
  }
  for (const UsageEntry& entry : record.users) {
    Restore(users_[{entry.queue, entry.user}], entry, at);
  }
}

void UsageMeter::Restore(Account& account, const UsageEntry& entry, std::int64_t at) {
  for (const auto& [resource, amount] : entry.used) {
    account.lines_[resource] = {.total = kThousand * amount, .at = at};
  }
  for (const auto& [resource, average] : entry.past) {
    Account::Line& line = account.lines_[resource];
    line.past = Scaled(average);
    line.at = at;
  }
}

UsageMeter::Account& UsageMeter::OfQueue(std::string_view queue) {
  const auto known = queues_.find(queue);
  if (known != queues_.end()) return known->second;
  Account& account = queues_[std::string(queue)];
  account.half_life_ = half_life_;
  account.named_ = named_ < kNamedQueues;
  named_ += account.named_ ? 1 : 0;
  return account;
}

void UsageMeter::SetHalfLife(std::int64_t milliseconds, std::int64_t now) {
  if (half_life_ == milliseconds) return;
  half_life_ = milliseconds;
  for (auto& [queue, account] : queues_) {
    for (auto& [resource, line] : account.lines_) line.Advance(now, account.half_life_);
    account.half_life_ = milliseconds;
  }
}

std::int64_t UsageMeter::Past(std::string_view queue, std::string_view resource,
                              std::int64_t now) const {
  const auto account = queues_.find(queue);
  if (account == queues_.end()) return 0;
  const Usage past = account->second.Past(now);
  const auto average = past.find(resource);
  return average == past.end() ? 0 : average->second;
}

UsageMeter::Account& UsageMeter::OfUser(std::string_view queue, std::string_view user,
                                        std::int64_t now) {
  const std::pair key{std::string(queue), std::string(user)};
  const auto known = users_.find(key);
  if (known != users_.end()) return known->second;
  if (users_.size() >= kMostUsers) {
    auto least = users_.end();
    __int128 least_sum = 0;
    for (auto it = users_.begin(); it != users_.end(); ++it) {
      if (!it->second.idle()) continue;
      const __int128 sum = Sum(it->second.Until(now));
      if (least != users_.end() && sum >= least_sum) continue;
      least = it;
      least_sum = sum;
    }
    if (least == users_.end()) return other_users_;
    AddUsage(past_users_, least->second.Until(now));
    users_.erase(least);
  }
  return users_[key];
}

void UsageMeter::RestQueues(std::int64_t now) {
  for (auto& [queue, account] : queues_) account.Rest(now);
}

void UsageMeter::Prune(std::int64_t now) {
  if (queues_.size() <= kMostQueues) return;
  std::vector<std::pair<__int128, std::string>> idle;
  for (const auto& [queue, account] : queues_) {
    if (account.idle()) idle.emplace_back(Sum(account.Until(now)), queue);
  }
  std::ranges::sort(idle);
  idle.resize(std::min(idle.size(), queues_.size() - kMostQueues));
  for (const auto& [sum, queue] : idle) {
    const auto gone = queues_.find(queue);
    AddUsage(past_queues_, gone->second.Until(now));
    named_ -= gone->second.named_ ? 1 : 0;
    queues_.erase(gone);
  }
}

UsageRecord UsageMeter::Record(std::int64_t now) const {
  UsageRecord record{.until = now, .other_queues = past_queues_, .other_users = past_users_};
  for (const auto& [queue, account] : queues_) {
    record.queues.push_back({.queue = queue,
                             .named = account.named_,
                             .used = account.Until(now),
                             .past = account.Past(now)});
  }
  for (const auto& [key, account] : users_) {
    record.users.push_back({.queue = key.first, .user = key.second, .used = account.Until(now)});
  }
  AddUsage(record.other_users, other_users_.Until(now));
  return record;
}

}  // namespace berth::cluster
