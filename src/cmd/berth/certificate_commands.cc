// `berth certificate list|revoke`: the client certificates of a standalone Berth, and the list of
// those that it refuses (apiserver/access/revocations.h).

#include <memory>

#include "api/time.h"
#include "apiserver/access/certificates.h"
#include "apiserver/access/revocations.h"
#include "base/clock.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/data_command.h"
#include "kube/config.h"
#include "platform/files/durable_file.h"
#include "standalone/data_folder.h"

namespace berth::cmd {
namespace {

using apiserver::ClientCertificate;
using base::Status;
using base::StatusCode;
using base::StatusOr;

struct CertificateArguments {
  std::string data_folder = standalone::kDefaultDataFolder;
  std::string certificate;  // "admin", "node", or the path of a kubeconfig or of a certificate

  std::string authority_folder() const { return standalone::CertificateFolder(data_folder); }
  apiserver::RevocationFiles files() const {
    return {.list = standalone::RevocationPath(data_folder),
            .authority_folder = authority_folder()};
  }
  std::string KeyFile(std::string_view name) const {
    return fmt::format("{}/{}.crt", authority_folder(), name);
  }
};

StatusOr<ClientCertificate> ReadCertificate(const CertificateArguments& arguments) {
  const std::string& named = arguments.certificate;
  const bool own = named == "admin" || named == "node";
  ASSIGN_OR_RETURN(const std::string authority, platform::ReadFile(arguments.KeyFile("ca")));
  ASSIGN_OR_RETURN(std::string text, platform::ReadFile(own ? arguments.KeyFile(named) : named));
  if (!own && text.find("-----BEGIN CERTIFICATE-----") == std::string::npos) {
    ASSIGN_OR_RETURN(const kube::Config config, kube::LoadKubeconfig(named));
    if (config.client_certificate.empty()) {
      return base::Error(StatusCode::kInvalidArgument,
                         "'{}' has no client certificate; for a token there is "
                         "'berth token delete'",
                         named);
    }
    text = config.client_certificate;
  }
  return apiserver::DescribeCertificate(text, authority);
}

Status RevokeCertificate(const CertificateArguments& arguments) {
  const auto certificate = ReadCertificate(arguments);
  RETURN_IF_ERROR_WITH(certificate,
                       fmt::format("read the certificate '{}'", arguments.certificate));
  RETURN_IF_ERROR(
      apiserver::AddRevocation(arguments.files(), {.sha256 = certificate->sha256,
                                                   .user = certificate->user,
                                                   .revoked = base::SystemClock().Now()}));
  cli::Print(fmt::format("revoked the certificate of {}; its bearer is refused from now on\n",
                         certificate->user));
  return base::OkStatus();
}

Status ListCertificates(const CertificateArguments& arguments) {
  ASSIGN_OR_RETURN(const auto revoked, apiserver::ReadRevocations(arguments.files()));
  base::Json table = {{"columnDefinitions", base::Json::array()}, {"rows", base::Json::array()}};
  for (const char* column : {"Name", "User", "Expires", "Revoked", "Sha256"}) {
    table["columnDefinitions"].push_back({{"name", column}, {"priority", 0}});
  }
  const auto add = [&](const std::string& name, const std::string& user, const std::string& expires,
                       const std::string& when, const std::string& sha256) {
    table["rows"].push_back({{"cells", {name, user, expires, when, sha256}}});
  };
  std::vector<std::string> present;
  for (const char* name : {"admin", "node"}) {
    CertificateArguments one = arguments;
    one.certificate = name;
    const auto certificate = ReadCertificate(one);
    if (certificate.status().code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(certificate);
    const auto entry =
        std::ranges::find(revoked, certificate->sha256, &apiserver::RevokedCertificate::sha256);
    add(name, certificate->user, api::FormatTime(certificate->expires),
        entry == revoked.end() ? "no" : api::FormatTime(entry->revoked), certificate->sha256);
    present.push_back(certificate->sha256);
  }
  for (const apiserver::RevokedCertificate& one : revoked) {
    if (std::ranges::find(present, one.sha256) != present.end()) continue;
    add("<replaced>", one.user, "<unknown>", api::FormatTime(one.revoked), one.sha256);
  }
  cli::Print(cli::TablePrinter(false, false, "").RenderTable(table));
  return base::OkStatus();
}

}  // namespace

void AddCertificateCommands(CLI::App& app, int& exit_code) {
  CLI::App* group = app.add_subcommand(
      "certificate", "The certificates of the administrator and of the node agent");
  group->require_subcommand(1);
  const auto arguments = std::make_shared<CertificateArguments>();
  AddDataCommand(*group, exit_code, arguments, "list",
                 "List the certificates, and those that are revoked", ListCertificates);
  AddDataCommand(*group, exit_code, arguments, "revoke",
                 "Refuse a certificate from now on; a running Berth makes a new one and "
                 "writes its kubeconfig anew",
                 RevokeCertificate)
      ->add_option("certificate", arguments->certificate,
                   "admin, node, or the file of a kubeconfig or certificate")
      ->required();
}

}  // namespace berth::cmd
