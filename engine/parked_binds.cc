#include "engine/parked_binds.h"

#include <utility>

namespace berth::engine {

TicketId ParkedBinds::Park(const std::string& uid) {
  const TicketId ticket = next_++;
  uids_.emplace(ticket, uid);
  by_uid_.emplace(uid, ticket);
  return ticket;
}

bool ParkedBinds::Drop(TicketId ticket) {
  const auto it = uids_.find(ticket);
  if (it == uids_.end()) return false;
  const auto [from, to] = by_uid_.equal_range(it->second);
  for (auto by_uid = from; by_uid != to; ++by_uid) {
    if (by_uid->second == ticket) {
      by_uid_.erase(by_uid);
      break;
    }
  }
  uids_.erase(it);
  return true;
}

std::optional<TicketId> ParkedBinds::TakeOne(const std::string& uid) {
  const auto it = by_uid_.find(uid);
  if (it == by_uid_.end()) return std::nullopt;
  const TicketId ticket = it->second;
  by_uid_.erase(it);
  uids_.erase(ticket);
  return ticket;
}

std::vector<TicketId> ParkedBinds::TakeAll(std::string_view uid) {
  std::vector<TicketId> tickets;
  const auto [from, to] = by_uid_.equal_range(std::string(uid));
  for (auto it = from; it != to; ++it) {
    tickets.push_back(it->second);
    uids_.erase(it->second);
  }
  by_uid_.erase(from, to);
  return tickets;
}

}  // namespace berth::engine
