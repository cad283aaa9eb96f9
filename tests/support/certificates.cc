#include "tests/support/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/catch.h"

namespace berth::testing {
namespace {

std::string MakeFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "berth-tls-XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

void Extend(X509* certificate, int nid, const std::string& value) {
  const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str()), X509_EXTENSION_free);
  REQUIRE(extension != nullptr);
  REQUIRE(X509_add_ext(certificate, extension.get(), -1) == 1);
}

template <typename Write>
std::string Pem(Write write) {
  const std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new(BIO_s_mem()), BIO_free);
  REQUIRE(write(bio.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace

CertificateFolder::CertificateFolder() : path_(MakeFolder()) { MakeAuthority("ca"); }
CertificateFolder::~CertificateFolder() { std::filesystem::remove_all(path_); }

void CertificateFolder::MakeAuthority(const std::string& file) {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  authority_.reset();
  authority_key_ = key;
  authority_ = Sign(key, {.common_name = file}, /*authority=*/true);
  WritePair(file, authority_, key);
}

void CertificateFolder::Issue(const std::string& file, const CertificateOptions& options) {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  WritePair(file, Sign(key, options, /*authority=*/false), key);
}

CertificateFolder::Certificate CertificateFolder::Sign(const Key& key,
                                                       const CertificateOptions& options,
                                                       bool authority) {
  Certificate certificate(X509_new(), X509_free);
  X509* const x509 = certificate.get();
  X509_set_version(x509, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), ++serial_);
  X509_gmtime_adj(X509_getm_notBefore(x509), static_cast<long>(options.from.count()));
  X509_gmtime_adj(X509_getm_notAfter(x509), static_cast<long>(options.until.count()));
  const auto* name = reinterpret_cast<const unsigned char*>(options.common_name.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_UTF8, name, -1, -1, 0);
  X509_set_issuer_name(x509, X509_get_subject_name(authority ? x509 : authority_.get()));
  X509_set_pubkey(x509, key.get());
  Extend(x509, NID_basic_constraints, authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!authority) Extend(x509, NID_ext_key_usage, options.usage);
  for (const auto& dns : options.dns_names) Extend(x509, NID_subject_alt_name, "DNS:" + dns);
  REQUIRE(X509_sign(x509, authority_key_.get(), EVP_sha256()) > 0);
  return certificate;
}

void CertificateFolder::WritePair(const std::string& file, const Certificate& certificate,
                                  const Key& key) const {
  Write(file + ".crt", Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); }));
  Write(file + ".key", Pem([&](BIO* bio) {
          return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
        }));
}

void CertificateFolder::Write(const std::string& name, const std::string& text) const {
  const std::string next = File(name) + ".next";
  std::ofstream(next) << text;
  std::filesystem::rename(next, File(name));
}

std::string CertificateFolder::Read(const std::string& name) const {
  std::ostringstream text;
  text << std::ifstream(File(name)).rdbuf();
  return std::move(text).str();
}

}  // namespace berth::testing
