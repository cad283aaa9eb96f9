// What an informer's test needs of the rest: nobody to write to, somebody to read from.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kube/rest_client.h"
#include "server/host.h"
#include "tests/support/fake_api_server.h"

namespace berth::server {

class NoApi final : public Api {
 public:
  BindResult Bind(const engine::PodRef&, const std::string&,
                  const std::map<std::string, std::string>&) override {
    return {};
  }
  std::string Release(const engine::ReleaseMember&, const std::function<void()>&) override {
    return {};
  }
  ReadResult ReadPod(const engine::PodRef&) override { return {}; }
  void Event(const engine::EmitEvent&) override {}
};

inline std::unique_ptr<kube::RestClient> ClientOf(const testing::FakeApiServer& server) {
  kube::ClientConfig config;
  config.server = server.Url();
  return std::move(*kube::RestClient::Create(config));
}

}  // namespace berth::server
