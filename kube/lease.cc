#include "kube/lease.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "kube/time.h"

namespace berth::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxHolder = 1024;

/// The member `key`; null if it is absent, or if `object` is not an object.
const json& Member(const json& object, const char* key) {
  static const json kNull;
  const auto at = object.find(key);  // For anything but an object: its end.
  return at == object.end() ? kNull : *at;
}

/// Reads `spec` field by field and remembers the first error.
class SpecReader {
 public:
  explicit SpecReader(const json& spec) : spec_(spec) {}

  std::string Text(const char* key) {
    const json& value = Member(spec_, key);
    if (value.is_null()) return {};
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kMaxHolder) {
      return Fail(key, "not a text of at most 1024 bytes"), std::string();
    }
    return value.get<std::string>();
  }

  std::int32_t Number(const char* key) {
    const json& value = Member(spec_, key);
    if (value.is_null()) return 0;
    if (!value.is_number_integer() || value < 0 ||
        value > std::numeric_limits<std::int32_t>::max()) {
      return Fail(key, "not a number from 0 to 2147483647"), 0;
    }
    return value.get<std::int32_t>();
  }

  Millis Time(const char* key) {
    const std::string text = Text(key);
    if (text.empty()) return 0;
    const auto time = ParseTime(text);
    if (!time) return Fail(key, "not a time"), 0;
    return *time;
  }

  void Fail(const char* key, const char* what) {
    if (error_.empty()) error_ = std::string("spec.") + key + ": " + what;
  }
  const std::string& error() const { return error_; }

 private:
  const json& spec_;
  std::string error_;
};

std::string PathOf(const std::string& ns) {
  return "/apis/coordination.k8s.io/v1/namespaces/" + EscapeSegment(ns) + "/leases";
}

}  // namespace

std::expected<Lease, std::string> DecodeLease(std::string_view text) {
  if (text.size() > kMaxLeaseBytes) return std::unexpected("Lease: larger than 64 KiB");
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::unexpected("Lease: not a JSON object");
  const json& version = Member(Member(object, "metadata"), "resourceVersion");
  if (!version.is_string() || version.get_ref<const std::string&>().empty()) {
    return std::unexpected("Lease: no metadata.resourceVersion");
  }
  const json& spec = Member(object, "spec");
  if (!spec.is_object() && !spec.is_null()) return std::unexpected("Lease: spec: not an object");
  const json empty = json::object();
  SpecReader reader(spec.is_null() ? empty : spec);
  Lease lease{.record = {.holder = reader.Text("holderIdentity"),
                         .duration_seconds = reader.Number("leaseDurationSeconds"),
                         .acquire_time = reader.Time("acquireTime"),
                         .renew_time = reader.Time("renewTime"),
                         .transitions = reader.Number("leaseTransitions")},
              .resource_version = version.get<std::string>(),
              .object = std::string(text)};
  const auto seconds = lease.record.duration_seconds;
  if (!lease.record.holder.empty() && (seconds < 1 || seconds > kMaxLeaseSeconds)) {
    reader.Fail("leaseDurationSeconds", "not 1 to 3600, and there is a holder");
  }
  if (!reader.error().empty()) return std::unexpected("Lease: " + reader.error());
  return lease;
}

std::string EncodeLease(const std::string& ns, const std::string& name, const LeaseRecord& record,
                        const Lease* base) {
  json object = base == nullptr ? json() : json::parse(base->object, nullptr, false);
  if (!object.is_object()) {
    object = {{"apiVersion", "coordination.k8s.io/v1"},
              {"kind", "Lease"},
              {"metadata", {{"name", name}, {"namespace", ns}}}};
  }
  if (base != nullptr) object["metadata"]["resourceVersion"] = base->resource_version;
  json& spec = object["spec"];
  if (!spec.is_object()) spec = json::object();
  spec["holderIdentity"] = record.holder;
  spec["leaseDurationSeconds"] = record.duration_seconds;
  spec["acquireTime"] = FormatMicroTime(record.acquire_time);
  spec["renewTime"] = FormatMicroTime(record.renew_time);
  spec["leaseTransitions"] = record.transitions;
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Request LeaseCall(const LeaseRequest& request, const std::string& ns, const std::string& name) {
  Request call;
  call.timeout = request.timeout;
  call.path = PathOf(ns);
  if (request.kind != LeaseRequest::Kind::kCreate) call.path += "/" + EscapeSegment(name);
  if (request.kind == LeaseRequest::Kind::kGet) return call;
  const bool update = request.kind == LeaseRequest::Kind::kUpdate;
  call.method = update ? "PUT" : "POST";
  call.body = EncodeLease(ns, name, request.record, update ? &request.base : nullptr);
  return call;
}

LeaseAnswer LeaseAnswerOf(const LeaseRequest& request,
                          const std::expected<Response, TransportError>& outcome) {
  using Kind = LeaseAnswer::Kind;
  if (!outcome) return {.kind = Kind::kFailed, .error = outcome.error().message};
  if (outcome->Ok()) {
    auto lease = DecodeLease(outcome->body);
    if (!lease) return {.kind = Kind::kFailed, .error = lease.error()};
    return {.kind = Kind::kLease, .lease = std::move(*lease)};
  }
  if (outcome->status == 409) return {.kind = Kind::kConflict};
  // For a create it means that the namespace is missing.
  if (outcome->status == 404 && request.kind != LeaseRequest::Kind::kCreate) {
    return {.kind = Kind::kNotFound};
  }
  return {.kind = Kind::kFailed,
          .error = "HTTP " + std::to_string(outcome->status) + ": " +
                   ParseStatus(outcome->body, outcome->status).message};
}

}  // namespace berth::kube
