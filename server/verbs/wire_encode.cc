// The encoder's part of wire.h.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "server/verbs/wire.h"

namespace berth::server {
namespace {

/// Length of the valid UTF-8 sequence that starts `text`, or 0.
std::size_t SequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0xC2   ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and code points beyond U+10FFFF are visible in the second byte.
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

constexpr bool IsPlain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

/// Whether no byte needs escaping or a look at its neighbours. Eight bytes at a time: it runs over
/// every offered name. The high bit of a lane is set by bytes from 0x80 on, and by the subtractions
/// for bytes below 0x20, and for the quote and the backslash, which the XOR makes zero. A borrow
/// from one lane can mark the next, but only past a lane that is rightly marked.
bool IsPlain(std::string_view text) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  while (text.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof word);
    const auto quote = (word ^ (kOnes * '"')) - kOnes;
    const auto backslash = (word ^ (kOnes * '\\')) - kOnes;
    const auto control = word - kOnes * 0x20;
    if (((word | quote | backslash | control) & (kOnes * 0x80)) != 0) return false;
    text.remove_prefix(sizeof word);
  }
  return std::ranges::all_of(text, [](char c) { return IsPlain(c); });
}

void AppendControl(std::string& out, unsigned char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  out += "\\u00";
  out += kHex[c >> 4U];
  out += kHex[c & 0xFU];
}

void AppendEscaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    std::size_t taken = 1;
    if (IsPlain(text.front())) {
      out += text.front();
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += text.front();
    } else if (c < 0x20) {
      AppendControl(out, c);
    } else if (const auto length = SequenceLength(text); length != 0) {
      out += text.substr(0, length);
      taken = length;
    } else {
      out += "\xEF\xBF\xBD";
    }
    text.remove_prefix(taken);
  }
}

void AppendInteger(std::string& out, std::int64_t value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

/// Maps each offered node to its kept name, if any.
class KeptIndex {
 public:
  static constexpr std::size_t kNotKept = ~std::size_t{0};

  KeptIndex(std::span<const std::string_view> offered, std::span<const std::string_view> kept)
      : rank_(offered.size(), kNotKept) {
    if (MatchInOrder(offered, kept)) return;
    std::ranges::fill(rank_, kNotKept);
    std::unordered_map<std::string_view, std::size_t> ranks;
    ranks.reserve(kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) ranks.emplace(kept[i], i);
    for (std::size_t i = 0; i < offered.size(); ++i) {
      if (const auto it = ranks.find(offered[i]); it != ranks.end()) rank_[i] = it->second;
    }
  }

  bool Kept(std::size_t offered) const { return rank_[offered] != kNotKept; }

  /// The kept names that were offered, each once, in the order of `kept`.
  std::vector<bool> Answered(std::size_t kept) const {
    std::vector<bool> answered(kept, false);
    for (const auto rank : rank_) {
      if (rank != kNotKept) answered[rank] = true;
    }
    return answered;
  }

 private:
  /// The usual cases, one kept node or all of them in the offer's order, need no hashing.
  bool MatchInOrder(std::span<const std::string_view> offered,
                    std::span<const std::string_view> kept) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < offered.size() && next < kept.size(); ++i) {
      if (offered[i] == kept[next]) rank_[i] = next++;
    }
    return next == kept.size();
  }

  std::vector<std::size_t> rank_;
};

char* Put(char* to, std::string_view text) { return std::copy(text.begin(), text.end(), to); }

/// Appends the failed entries, a comma after each. All entries end with the same bytes, `tail`.
void AppendFailed(std::string& out, std::span<const std::string_view> offered,
                  const KeptIndex& index, std::string_view tail) {
  std::size_t bytes = 0;
  bool plain = true;
  for (const auto name : offered) {
    bytes += name.size() + tail.size() + 1;
    plain = plain && IsPlain(name);
  }
  if (!plain) {  // Not a name that Kubernetes allows.
    for (std::size_t i = 0; i < offered.size(); ++i) {
      if (index.Kept(i)) continue;
      AppendJsonString(out, offered[i]);
      out += tail.substr(1);
    }
    return;
  }
  const auto start = out.size();
  out.resize_and_overwrite(start + bytes, [&](char* data, std::size_t) {
    char* to = data + start;
    for (std::size_t i = 0; i < offered.size(); ++i) {
      if (index.Kept(i)) continue;
      *to++ = '"';
      to = Put(to, offered[i]);
      to = Put(to, tail);
    }
    return static_cast<std::size_t>(to - data);
  });
}

void AppendFailedMap(std::string& out, std::span<const std::string_view> offered,
                     const KeptIndex& index, std::string_view reason) {
  std::string tail = "\":";
  AppendJsonString(tail, reason);
  tail += ',';
  out += '{';
  const auto start = out.size();
  AppendFailed(out, offered, index, tail);
  if (out.size() != start) out.pop_back();
  out += '}';
}

void AppendNames(std::string& out, std::span<const std::string_view> kept, const KeptIndex& index) {
  const auto answered = index.Answered(kept.size());
  out += '[';
  bool first = true;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!answered[i]) continue;
    if (!std::exchange(first, false)) out += ',';
    AppendJsonString(out, kept[i]);
  }
  out += ']';
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  if (IsPlain(text)) {
    out += text;
  } else {
    AppendEscaped(out, text);
  }
  out += '"';
}

void EncodeFilterResult(std::span<const std::string_view> offered, const FilterResult& result,
                        std::string& out) {
  if (!result.error.empty()) return EncodeFilterError(result.error, out);
  const KeptIndex index(offered, result.kept);
  out += R"({"Nodes":null,"NodeNames":)";
  AppendNames(out, result.kept, index);
  const bool unresolvable = result.refusal == Refusal::kUnresolvable;
  out += unresolvable ? R"(,"FailedNodes":{},"FailedAndUnresolvableNodes":)" : R"(,"FailedNodes":)";
  AppendFailedMap(out, offered, index, result.reason);
  out += unresolvable ? R"(,"Error":""})" : R"(,"FailedAndUnresolvableNodes":{},"Error":""})";
}

void EncodeFilterError(std::string_view error, std::string& out) {
  out +=
      R"({"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":)";
  AppendJsonString(out, error);
  out += '}';
}

void EncodePriorities(std::span<const HostPriority> priorities, std::string& out) {
  std::size_t bytes = out.size() + 2;
  for (const auto& priority : priorities) bytes += priority.host.size() + 26;
  out.reserve(bytes);
  out += '[';
  for (const auto& priority : priorities) {
    if (&priority != priorities.data()) out += ',';
    out += R"({"Host":)";
    AppendJsonString(out, priority.host);
    out += R"(,"Score":)";
    AppendInteger(out, priority.score);
    out += '}';
  }
  out += ']';
}

void EncodeBindResult(std::string_view error, std::string& out) {
  out += R"({"Error":)";
  AppendJsonString(out, error);
  out += '}';
}

void EncodePreemption(const std::map<std::string, Victims, std::less<>>& node_to_victims,
                      std::string& out) {
  out += R"({"NodeNameToMetaVictims":{)";
  bool first = true;
  for (const auto& [node, victims] : node_to_victims) {
    if (victims.pod_uids.empty()) continue;
    if (!std::exchange(first, false)) out += ',';
    AppendJsonString(out, node);
    out += R"(:{"Pods":[)";
    for (const auto& uid : victims.pod_uids) {
      if (&uid != victims.pod_uids.data()) out += ',';
      out += R"({"UID":)";
      AppendJsonString(out, uid);
      out += '}';
    }
    out += R"(],"NumPDBViolations":)";
    AppendInteger(out, victims.num_pdb_violations);
    out += '}';
  }
  out += "}}";
}

}  // namespace berth::server
