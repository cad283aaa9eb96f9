// The extender protocol's JSON: requests to the values of verbs.h, and answers to bytes.
//
// Decoding follows Go's encoding/json where kube-scheduler's own types rely on it: extender keys
// match in any case, unknown keys are skipped, null means absent, and the last of several equal
// keys wins. It is stricter where leniency would hide a mistake: names are bounded and never empty.
#pragma once

#include <cstddef>
#include <expected>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/verbs/verbs.h"

namespace berth::server {

/// Readable bytes that must follow a request body in memory (what simdjson reads ahead).
inline constexpr std::size_t kBodyPadding = 64;

/// A Kubernetes object name has at most 253 bytes, a UID 36; longer names are not looked up.
inline constexpr std::size_t kMaxNameBytes = 320;
inline constexpr std::size_t kMaxNodes = 200'000;
inline constexpr std::size_t kMaxVictims = 200'000;
inline constexpr std::size_t kMaxPodDepth = 128;  ///< A real pod stays under 30.

/// Where a request body lies. `kBodyPadding` bytes after it are readable too.
struct PaddedBody {
  const char* data = nullptr;
  std::size_t size = 0;
};

/// Decodes one request at a time, and keeps its buffers for the next: one per thread. Views in a
/// result point into the body or the decoder: valid until either is used again. Error texts are
/// sentences for the person who configured the caller.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  std::expected<ExtenderArgs, std::string> DecodeExtenderArgs(PaddedBody body);
  std::expected<BindArgs, std::string> DecodeBindArgs(PaddedBody body);
  std::expected<PreemptionArgs, std::string> DecodePreemptionArgs(PaddedBody body);

  /// Gives back what decoding a large body has taken. What was decoded last is not valid any more.
  void ReleaseLarge();

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// Appends `text` as a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);

/// ExtenderFilterResult. `offered` names no node twice. Every offered node is in NodeNames or in
/// exactly one Failed map; names in `result.kept` that were not offered, or occur twice, are left
/// out, since kube-scheduler fails on them.
void EncodeFilterResult(std::span<const std::string_view> offered, const FilterResult& result,
                        std::string& out);

/// An ExtenderFilterResult that says that the whole call failed.
void EncodeFilterError(std::string_view error, std::string& out);

/// HostPriorityList: a bare array, with integer scores.
void EncodePriorities(std::span<const HostPriority> priorities, std::string& out);

/// ExtenderBindingResult; an empty error means bound.
void EncodeBindResult(std::string_view error, std::string& out);

/// ExtenderPreemptionResult. Never null (kube-scheduler crashes on it), and nodes without victims
/// are left out (it fails on them).
void EncodePreemption(const std::map<std::string, Victims, std::less<>>& node_to_victims,
                      std::string& out);

}  // namespace berth::server
