// Certificates for tests, in a folder that is removed with the object.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

struct evp_pkey_st;
struct x509_st;

namespace berth::testing {

struct CertificateOptions {
  std::string common_name;
  std::vector<std::string> dns_names = {};
  std::chrono::seconds from{-3600};  ///< Validity, counted from now.
  std::chrono::seconds until{86'400};
  const char* usage = "serverAuth,clientAuth";  ///< extendedKeyUsage
};

/// Writes NAME.crt and NAME.key files.
class CertificateFolder {
 public:
  CertificateFolder();
  ~CertificateFolder();
  CertificateFolder(const CertificateFolder&) = delete;
  CertificateFolder& operator=(const CertificateFolder&) = delete;

  /// Makes a certificate authority, with which Issue() signs from now on. Written to `file`.crt and
  /// .key.
  void MakeAuthority(const std::string& file);
  void Issue(const std::string& file, const CertificateOptions& options);

  std::string File(const std::string& name) const { return path_ + "/" + name; }
  /// Replaces the file in one step, as an editor or a certificate issuer does.
  void Write(const std::string& name, const std::string& text) const;
  void Copy(const std::string& from, const std::string& to) const { Write(to, Read(from)); }
  std::string Read(const std::string& name) const;

 private:
  using Key = std::shared_ptr<evp_pkey_st>;
  using Certificate = std::shared_ptr<x509_st>;

  Certificate Sign(const Key& key, const CertificateOptions& options, bool authority);
  void WritePair(const std::string& file, const Certificate& certificate, const Key& key) const;

  const std::string path_;
  Key authority_key_;
  Certificate authority_;
  long serial_ = 0;
};

}  // namespace berth::testing
