#include "sim/world/lease_object.h"

#include <nlohmann/json.hpp>

namespace berth::sim {

kube::LeaseAnswer LeaseObject::Serve(const kube::LeaseRequest& request) {
  using Outcome = kube::LeaseAnswer::Kind;
  using Asked = kube::LeaseRequest::Kind;
  if (request.kind == Asked::kCreate ? lease_.has_value() : !lease_.has_value()) {
    return {.kind = lease_ ? Outcome::kConflict : Outcome::kNotFound};
  }
  if (request.kind == Asked::kUpdate && request.base.resource_version != lease_->resource_version) {
    return {.kind = Outcome::kConflict};
  }
  if (request.kind != Asked::kGet) {
    lease_ = kube::Lease{.record = request.record, .resource_version = std::to_string(++version_)};
  }
  return {.kind = Outcome::kLease, .lease = *lease_};
}

bool LeaseObject::Steal() {
  if (!lease_) return false;
  lease_->record.holder = "somebody-else";
  lease_->resource_version = std::to_string(++version_);
  return true;
}

bool LeaseObject::Delete() {
  const bool existed = lease_.has_value();
  lease_.reset();
  return existed;
}

kube::LeaseAnswer LeaseObject::ServeInBytes(const kube::LeaseRequest& request, Environment& env) {
  using Asked = kube::LeaseRequest::Kind;
  static const std::string kNamespace = "berth-system";
  static const std::string kName = "berth";
  const kube::Request call = kube::LeaseCall(request, kNamespace, kName);
  kube::LeaseRequest read;
  if (call.method != "GET") {
    auto object = nlohmann::json::parse(call.body);
    read.kind = call.method == "PUT" ? Asked::kUpdate : Asked::kCreate;
    if (read.kind == Asked::kCreate) object["metadata"]["resourceVersion"] = "none yet";
    const auto lease = kube::DecodeLease(object.dump());
    if (!lease || lease->record != request.record) {
      env.Garble("a Lease: " + (lease ? call.body : lease.error()));
      return {};
    }
    read.record = lease->record;
    read.base = *lease;
  }
  const kube::LeaseAnswer answer = Serve(read);
  kube::Response response;
  response.status = 200;
  if (answer.kind == kube::LeaseAnswer::Kind::kLease) {
    auto object = nlohmann::json::parse(
        kube::EncodeLease(kNamespace, kName, answer.lease.record, /*base=*/nullptr));
    object["metadata"]["resourceVersion"] = answer.lease.resource_version;
    response.body = object.dump();
  } else {
    response.status = answer.kind == kube::LeaseAnswer::Kind::kConflict ? 409 : 404;
  }
  return kube::LeaseAnswerOf(request, response);
}

}  // namespace berth::sim
