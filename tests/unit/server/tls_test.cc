// The verbs' port over TLS: who is let in, and what happens when certificates change.
#include <openssl/ssl.h>

#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "server/http/http_server.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using berth::testing::CertificateFolder;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Eventually;
using test::Get;
using test::Post;
using test::RawClient;

/// A client that takes any server, and shows the certificate NAME if there is one.
class TlsClient {
 public:
  TlsClient(std::uint16_t port, const CertificateFolder& files, const std::string& name = "") {
    if (!name.empty()) {
      SSL_CTX_use_certificate_file(context_.get(), files.File(name + ".crt").c_str(),
                                   SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context_.get(), files.File(name + ".key").c_str(),
                                  SSL_FILETYPE_PEM);
    }
    bio_.reset(BIO_new_ssl_connect(context_.get()), BIO_free_all);
    BIO_set_conn_hostname(bio_.get(), ("127.0.0.1:" + std::to_string(port)).c_str());
    connected_ = BIO_do_connect(bio_.get()) == 1;
  }

  /// CN of the server's certificate; empty: no connection.
  std::string Server() const {
    SSL* ssl = nullptr;
    BIO_get_ssl(bio_.get(), &ssl);
    if (!connected_ || ssl == nullptr) return {};
    const X509* certificate = SSL_get0_peer_certificate(ssl);
    std::array<char, 64> name{};
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(),
                              name.size());
    return name.data();
  }

  /// The answer, head and body; empty: there was none.
  std::string Echo(const std::string& body) {
    if (!connected_) return {};
    const auto request = Post("/echo", body);
    BIO_write(bio_.get(), request.data(), static_cast<int>(request.size()));
    std::string in;
    std::array<char, 16384> chunk;
    while (in.find("\r\n\r\n") == in.npos || !in.ends_with(body)) {
      const int got = BIO_read(bio_.get(), chunk.data(), chunk.size());
      if (got <= 0) return {};
      in.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return in;
  }

 private:
  const std::shared_ptr<SSL_CTX> context_{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  std::shared_ptr<BIO> bio_;
  bool connected_ = false;
};

struct Fixture {
  Fixture() {
    files.Issue("server", {.common_name = "server"});
    files.Issue("scheduler", {.common_name = "scheduler"});
    tls = {.cert_file = files.File("server.crt"),
           .key_file = files.File("server.key"),
           .look_interval = milliseconds(2)};
  }

  void AskForCertificates(std::vector<std::string> names = {"scheduler"}) {
    tls.client_ca_file = files.File("ca.crt");
    tls.client_allowed_names = std::move(names);
  }

  /// Returns the error, or empty.
  std::string Start() {
    HttpServerOptions options{.tls = tls};
    options.on_event = [this](HttpEvent event) {
      const std::lock_guard lock(mutex);
      ++events[event];
    };
    options.on_tls_refused = [this](const std::string& why) {
      const std::lock_guard lock(mutex);
      refusals.push_back(why);
    };
    options.on_tls_reload = [this](const TlsReload& reload) {
      const std::lock_guard lock(mutex);
      reloads.push_back(reload);
    };
    server.emplace(std::move(options));
    server->Handle("POST", "/echo", [](const HttpRequest& request) {
      return HttpResponse{.body = std::string(request.body)};
    });
    const auto listening = server->Listen("127.0.0.1", 0);
    if (!listening) return listening.error();
    port = *listening;
    return {};
  }

  /// Whether a client with this certificate is served.
  bool Serves(const std::string& name) { return !TlsClient(port, files, name).Echo("hi").empty(); }

  /// Why the last client was refused, once `n` were.
  std::string Refusal(std::size_t n) {
    REQUIRE(Eventually([&] {
      const std::lock_guard lock(mutex);
      return refusals.size() == n && events[HttpEvent::kTlsRefused] == static_cast<int>(n);
    }));
    const std::lock_guard lock(mutex);
    return refusals.back();
  }

  std::size_t Reloads() {
    const std::lock_guard lock(mutex);
    return reloads.size();
  }
  /// Waits for the n-th.
  TlsReload Reload(std::size_t n) {
    REQUIRE(Eventually([&] { return Reloads() >= n; }));
    const std::lock_guard lock(mutex);
    return reloads[n - 1];
  }

  CertificateFolder files;
  TlsOptions tls;
  std::mutex mutex;
  std::map<HttpEvent, int> events;
  std::vector<std::string> refusals;
  std::vector<TlsReload> reloads;
  std::optional<HttpServer> server;
  std::uint16_t port = 0;
};

TEST_CASE("TLS alone: whoever can reach the port is served, but not in plain text", "[tls]") {
  Fixture f;
  REQUIRE(f.Start().empty());
  const std::string large(300'000, 'x');
  CHECK(TlsClient(f.port, f.files).Echo(large).ends_with(large));
  CHECK_FALSE(RawClient(f.port).Call(Get("/page")).has_value());
  CHECK_THAT(f.Refusal(1), Catch::Contains("http request"));
}

TEST_CASE("mutual TLS: a certificate of the CA, with an allowed name", "[tls]") {
  Fixture f;
  f.AskForCertificates({"scheduler", "other.example.com"});
  f.files.Issue("unlisted", {.common_name = "unlisted", .dns_names = {"unlisted.example.com"}});
  f.files.Issue("by-dns", {.common_name = "x", .dns_names = {"other.example.com"}});
  f.files.Issue("wildcard", {.common_name = "x", .dns_names = {"*.example.com"}});
  REQUIRE(f.Start().empty());
  CHECK(f.Serves("scheduler"));
  CHECK(f.Serves("by-dns"));
  CHECK_FALSE(f.Serves("unlisted"));
  CHECK_THAT(f.Refusal(1), Catch::Contains("none of the allowed names, but CN \"unlisted\""));
  CHECK_FALSE(f.Serves("wildcard"));
  CHECK_THAT(f.Refusal(2), Catch::Contains("none of the allowed names"));
  CHECK_FALSE(f.Serves(""));
  CHECK_THAT(f.Refusal(3), Catch::Contains("did not return a certificate"));
}

TEST_CASE("mutual TLS: without names any certificate of the CA will do", "[tls]") {
  Fixture f;
  f.AskForCertificates({});
  REQUIRE(f.Start().empty());
  CHECK(f.Serves("scheduler"));
  CHECK_FALSE(f.Serves(""));
}

TEST_CASE("mutual TLS: a certificate that does not hold is no certificate", "[tls]") {
  Fixture f;
  f.AskForCertificates();
  f.files.Issue("expired", {.common_name = "scheduler", .until = seconds(-60)});
  f.files.Issue("early", {.common_name = "scheduler", .from = seconds(3600)});
  f.files.Issue("servers", {.common_name = "scheduler", .usage = "serverAuth"});
  const std::string ours = f.files.Read("ca.crt");
  f.files.MakeAuthority("ca");
  f.files.Issue("foreign", {.common_name = "scheduler"});
  f.files.Write("ca.crt", ours);
  REQUIRE(f.Start().empty());
  CHECK(f.Serves("scheduler"));
  CHECK_FALSE(f.Serves("expired"));
  CHECK_THAT(f.Refusal(1), Catch::Contains("certificate has expired"));
  CHECK_FALSE(f.Serves("early"));
  CHECK_THAT(f.Refusal(2), Catch::Contains("not yet valid"));
  CHECK_FALSE(f.Serves("servers"));
  CHECK_THAT(f.Refusal(3), Catch::Contains("unsuitable certificate purpose") ||
                               Catch::Contains("unsupported certificate purpose"));
  CHECK_FALSE(f.Serves("foreign"));
  CHECK_THAT(f.Refusal(4), Catch::Contains("certificate signature failure") ||
                               Catch::Contains("unable to get local issuer"));
}

TEST_CASE("files that cannot be served are an error at the start", "[tls]") {
  Fixture f;
  f.files.Issue("other", {.common_name = "other"});
  SECTION("another certificate's key") {
    f.tls.key_file = f.files.File("other.key");
    CHECK_THAT(f.Start(), Catch::Contains("other.key"));
  }
  SECTION("expired") {
    f.files.Issue("server", {.common_name = "server", .until = seconds(-60)});
    CHECK_THAT(f.Start(), Catch::Contains("server.crt is valid from"));
  }
  SECTION("not valid yet") {
    f.files.Issue("server", {.common_name = "server", .from = seconds(60)});
    CHECK_THAT(f.Start(), Catch::Contains("server.crt is valid from"));
  }
  SECTION("no file") {
    f.tls.cert_file = f.files.File("none.crt");
    CHECK_THAT(f.Start(), Catch::Contains("none.crt"));
  }
  SECTION("no certificate in the CA file") {
    f.AskForCertificates();
    f.files.Write("ca.crt", "nonsense");
    CHECK_THAT(f.Start(), Catch::Contains("ca.crt"));
  }
  CHECK(f.Reloads() == 0);
}

TEST_CASE("a client that does not finish the handshake is given up", "[tls]") {
  Fixture f;
  HttpServerOptions options{.handshake_timeout = milliseconds(20), .tls = f.tls};
  HttpServer server(std::move(options));
  RawClient silent(*server.Listen("127.0.0.1", 0));
  CHECK(silent.Closed());
}

TEST_CASE("a new certificate is served from then on; connections move over and lose nothing",
          "[tls][reload]") {
  Fixture f;
  REQUIRE(f.Start().empty());
  CHECK(f.Reload(1).subject == "server");
  TlsClient kept(f.port, f.files);
  CHECK(kept.Server() == "server");
  CHECK_THAT(kept.Echo("1"), !Catch::Contains("Connection: close"));

  f.files.Issue("next", {.common_name = "next"});
  SECTION("the key before the certificate") {
    f.files.Copy("next.key", "server.key");
    CHECK_THAT(f.Reload(2).error, Catch::Contains("server.key"));
    CHECK(TlsClient(f.port, f.files).Server() == "server");
    f.files.Copy("next.crt", "server.crt");
  }
  SECTION("the certificate before the key") {
    f.files.Copy("next.crt", "server.crt");
    CHECK_THAT(f.Reload(2).error, Catch::Contains("server.key"));
    CHECK(TlsClient(f.port, f.files).Server() == "server");
    f.files.Copy("next.key", "server.key");
  }
  const auto reload = f.Reload(3);
  CHECK(reload.error.empty());
  CHECK(reload.subject == "next");
  CHECK(TlsClient(f.port, f.files).Server() == "next");
  const auto last = kept.Echo("2");
  CHECK(last.ends_with("2"));
  CHECK_THAT(last, Catch::Contains("Connection: close"));
}

TEST_CASE("a Secret's mount changes by one link", "[tls][reload]") {
  namespace fs = std::filesystem;
  Fixture f;
  const fs::path mount = f.files.File("mount");
  const auto put = [&](const std::string& version) {
    fs::create_directories(mount / version);
    for (const char* file : {"server.crt", "server.key"}) {
      fs::copy_file(f.files.File(file), mount / version / file);
    }
    fs::create_directory_symlink(version, mount / "..data_tmp");
    fs::rename(mount / "..data_tmp", mount / "..data");
  };
  put("..v1");
  for (const char* file : {"server.crt", "server.key"}) {
    fs::create_symlink(fs::path("..data") / file, mount / file);
  }
  f.tls.cert_file = mount / "server.crt";
  f.tls.key_file = mount / "server.key";
  REQUIRE(f.Start().empty());
  f.files.Issue("server", {.common_name = "next"});
  put("..v2");
  CHECK(Eventually([&] { return TlsClient(f.port, f.files).Server() == "next"; }));
  fs::remove_all(mount / "..v1");
  CHECK(TlsClient(f.port, f.files).Server() == "next");
}

TEST_CASE("bad files keep the old ones, and are told of once", "[tls][reload]") {
  Fixture f;
  f.AskForCertificates();
  REQUIRE(f.Start().empty());
  const auto expiry = f.Reload(1).expiry;
  std::string wanted;
  SECTION("no certificate") {
    f.files.Write("server.crt", "nonsense");
    wanted = "server.crt";
  }
  SECTION("gone") {
    std::filesystem::remove(f.files.File("server.key"));
    wanted = "server.key";
  }
  SECTION("expired") {
    // In one step, so that it is not seen half-way.
    f.files.Issue("late", {.common_name = "server", .until = seconds(-60)});
    std::filesystem::remove(f.files.File("server.key"));
    CHECK_THAT(f.Reload(2).error, Catch::Contains("server.key"));
    f.files.Copy("late.crt", "server.crt");
    f.files.Copy("late.key", "server.key");
    wanted = "is valid from";
  }
  SECTION("a CA that is none") {
    f.files.Write("ca.crt", "");
    wanted = "ca.crt";
  }
  REQUIRE(Eventually([&] {
    const std::lock_guard lock(f.mutex);
    return f.reloads.back().error.find(wanted) != std::string::npos;
  }));
  const auto told = f.Reloads();
  CHECK(f.Reload(told).expiry == expiry);  // Of what is in force.
  if (wanted != "ca.crt") {
    for (int i = 0; i < 10; ++i) CHECK(f.Serves("scheduler"));
  }
  CHECK(f.Reloads() == told);

  f.files.MakeAuthority("ca");
  f.files.Issue("scheduler", {.common_name = "scheduler"});
  f.files.Issue("server", {.common_name = "mended"});
  REQUIRE(Eventually([&] { return TlsClient(f.port, f.files, "scheduler").Server() == "mended"; }));
  CHECK(f.Serves("scheduler"));
}

TEST_CASE("another client CA puts earlier clients out, kept connections too", "[tls][reload]") {
  Fixture f;
  f.AskForCertificates();
  REQUIRE(f.Start().empty());
  TlsClient kept(f.port, f.files, "scheduler");
  CHECK_FALSE(kept.Echo("1").empty());
  f.files.Copy("scheduler.crt", "old.crt");
  f.files.Copy("scheduler.key", "old.key");
  f.files.MakeAuthority("ca");
  f.files.Issue("scheduler", {.common_name = "scheduler"});
  CHECK(f.Reload(2).error.empty());
  CHECK_THAT(kept.Echo("2"), Catch::Contains("Connection: close"));
  CHECK(kept.Echo("3").empty());
  CHECK(f.Serves("scheduler"));
  CHECK_FALSE(f.Serves("old"));
  CHECK_THAT(f.Refusal(1), Catch::Contains("the client's certificate is refused"));
}

TEST_CASE("a certificate that expires in force is told of, and still served", "[tls][reload]") {
  Fixture f;
  f.files.Issue("server", {.common_name = "short", .until = seconds(2)});
  REQUIRE(f.Start().empty());
  CHECK_THAT(f.Reload(2).error, Catch::Contains("is valid from"));
  // Whether to accept it is the client's to say: it would have to switch its check off.
  CHECK(f.Serves("scheduler"));
  CHECK(f.Reloads() == 2);
}

}  // namespace
}  // namespace berth::server
