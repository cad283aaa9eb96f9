// What an informer's test needs of the API server: an Api that does nothing, and a client that
// reads.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kube/rest_client.h"
#include "server/drivers/host_driver.h"
#include "tests/support/fake_api_server.h"

namespace berth::server {

class NoApi final : public Api {
 public:
  host::Result CarryOut(const host::ApiOrder&, const Wanted&) override { return {}; }
  void Event(const engine::EmitEvent&) override {}
};

inline std::unique_ptr<kube::RestClient> ClientOf(const testing::FakeApiServer& server) {
  kube::ClientConfig config;
  config.server = server.Url();
  return std::move(*kube::RestClient::Create(config));
}

}  // namespace berth::server
