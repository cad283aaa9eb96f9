// The coordination.k8s.io/v1 Lease by which a leader is elected: as a value, as JSON, and as API
// server calls. No I/O and no clock. What comes from the server may have been written by anyone.
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

/// The content of a Lease that the election uses.
struct LeaseRecord {
  std::string holder{};               ///< Empty: no holder, the last one released it.
  std::int32_t duration_seconds = 0;  ///< For how long after its last change other candidates must
                                      ///< wait.
  Millis acquire_time = 0;            ///< By the holder's wall clock: for display, never evaluated.
  Millis renew_time = 0;              ///< Likewise; it only distinguishes one version from the
                                      ///< next.
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

/// The error says what is wrong with the Lease: a holder without a duration of 1 s to an hour,
/// invalid times, negative or fractional numbers, more than 64 KiB.
std::expected<Lease, std::string> DecodeLease(std::string_view json);

/// The body of a create, or of an update of `base`, whose resourceVersion it must still have.
std::string EncodeLease(const std::string& ns, const std::string& name, const LeaseRecord& record,
                        const Lease* base);

/// What an election sends to the API server.
struct LeaseRequest {
  enum class Kind : std::uint8_t { kGet, kCreate, kUpdate } kind = Kind::kGet;
  LeaseRecord record{};  ///< The record to write.
  Lease base{};          ///< What kUpdate replaces.
  Duration timeout{0};   ///< An answer after this is too late.
};

/// What came of a LeaseRequest.
struct LeaseAnswer {
  enum class Kind : std::uint8_t {
    kLease,     ///< Read or written: the Lease as the server has it now.
    kNotFound,  ///< There is no Lease.
    kConflict,  ///< Another client wrote it meanwhile.
    kFailed,    ///< Another answer, none, or one that is not valid. A write may have taken effect
                ///< nevertheless.
  } kind = Kind::kFailed;
  Lease lease{};
  std::string error{};  ///< Of kFailed, for display.
};

/// `request` as an HTTP request for the Lease `ns`/`name`, and what its outcome means.
Request LeaseCall(const LeaseRequest& request, const std::string& ns, const std::string& name);
LeaseAnswer LeaseAnswerOf(const LeaseRequest& request,
                          const std::expected<Response, TransportError>& outcome);

}  // namespace berth::kube
