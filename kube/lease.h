// The coordination.k8s.io/v1 Lease that leaders are elected by: as a value, as JSON, and as calls
// of the API server. No I/O and no clock. What comes from the server may have been written by
// anyone.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "kube/backoff.h"
#include "kube/objects.h"
#include "kube/rest_client.h"

namespace berth::kube {

inline constexpr std::size_t kMaxLeaseBytes = 64 * 1024;
inline constexpr std::int32_t kMaxLeaseSeconds = 3600;

/// What a Lease says of who leads.
struct LeaseRecord {
  std::string holder{};               ///< Empty: nobody, the last one released it.
  std::int32_t duration_seconds = 0;  ///< For how long after its last change others keep off.
  Millis acquire_time = 0;            ///< By the holder's wall clock: for people, never judged.
  Millis renew_time = 0;              ///< Likewise; it only tells one version from the next.
  std::int32_t transitions = 0;       ///< How often the holder changed.
  auto operator<=>(const LeaseRecord&) const = default;
};

/// A Lease as the server has it.
struct Lease {
  LeaseRecord record{};
  std::string resource_version{};
  /// The JSON, so that a write keeps what others put there (labels, further fields).
  std::string object{};
};

/// Text: what is wrong with it. A holder without a duration of 1 s to an hour, times that are none,
/// negative or fractional numbers, more than 64 KiB: nothing that could be led by.
std::expected<Lease, std::string> DecodeLease(std::string_view json);

/// The body of a create, or of an update of `base`, whose resourceVersion it must still have.
std::string EncodeLease(const std::string& ns, const std::string& name, const LeaseRecord& record,
                        const Lease* base);

/// What an election asks of the API server.
struct LeaseRequest {
  enum class Kind : std::uint8_t { kGet, kCreate, kUpdate } kind = Kind::kGet;
  LeaseRecord record{};  ///< To write.
  Lease base{};          ///< What kUpdate replaces.
  Duration timeout{0};   ///< An answer after this comes too late.
};

struct LeaseAnswer {
  enum class Kind : std::uint8_t {
    kLease,     ///< Read, or written: as the server has it now.
    kNotFound,  ///< There is none.
    kConflict,  ///< Somebody else wrote it meanwhile.
    kFailed,    ///< Another answer, none, or nonsense. A write may have taken effect all the same.
  } kind = Kind::kFailed;
  Lease lease{};
  std::string error{};  ///< Of kFailed, for people.
};

/// `request` as a call for the Lease `ns`/`name`, and what its outcome means.
Request LeaseCall(const LeaseRequest& request, const std::string& ns, const std::string& name);
LeaseAnswer LeaseAnswerOf(const LeaseRequest& request,
                          const std::expected<Response, TransportError>& outcome);

}  // namespace berth::kube
