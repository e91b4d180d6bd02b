#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "api/time.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/connect.h"
#include "cli/doctor/check.h"

namespace berth::cli::doctor {
namespace {

constexpr size_t kMaxSocketPath = 107;  // unix(7): sun_path without its zero
constexpr uint64_t kMinFreeBytes = uint64_t{1} << 30;
constexpr int kWarnDays = 14;  // before a certificate ends

// Returns `folder`, or, if it does not exist, the nearest folder above it that does.
std::string FindExistingFolder(std::string folder) {
  struct stat st;
  while (folder.size() > 1 && lstat(folder.c_str(), &st) != 0) {
    folder = std::string(base::FolderOf(folder));
  }
  return folder;
}

// Checks a file or folder that holds secrets or that only root may use.
void CheckMode(const std::string& path, mode_t allowed, std::string_view what, Findings& out) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) {
    const bool missing = errno == ENOENT;
    out.push_back(
        {"folders", path, Verdict::kNote,
         missing ? "it does not exist yet; 'berth up' makes it" : "only root can check it", ""});
    return;
  }
  const mode_t mode = st.st_mode & 07777;
  const bool good = (mode & ~allowed) == 0 && st.st_uid == 0;
  out.push_back({"folders", path, good ? Verdict::kOk : Verdict::kBad,
                 good ? fmt::format("mode {:04o}", mode)
                      : fmt::format("mode {:04o}, owner {}: other users can access {}", mode,
                                    st.st_uid, what),
                 good ? "" : fmt::format("chown root {0}; chmod {1:04o} {0}", path, allowed)});
}

std::string ToMebibytes(uint64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

}  // namespace

void CheckFolders(const Machine& machine, const std::string& data_folder, Findings& out) {
  const std::string longest =
      fmt::format("{}/kubelet/plugins_registry/local.csi.berth.dev-reg.sock", data_folder);
  if (longest.size() <= kMaxSocketPath) {
    out.push_back({"folders", "path length", Verdict::kOk,
                   fmt::format("the longest socket's path has {} of {} bytes", longest.size(),
                               kMaxSocketPath),
                   ""});
  } else {
    out.push_back({"folders", "path length", Verdict::kBad,
                   fmt::format("'{}' is too long by {} bytes for the sockets below it", data_folder,
                               longest.size() - kMaxSocketPath),
                   "use a data folder with a shorter path, with --data"});
  }
  CheckMode(data_folder, 0700, "the API's keys and pods' volumes", out);
  if (!machine.is_root) return;
  CheckMode(data_folder + "/kubeconfig", 0600, "an administrator's key", out);
  CheckMode(data_folder + "/node.kubeconfig", 0600, "the node agent's key", out);
  CheckMode(ApiSocket(data_folder), 0666, "the API", out);
}

void CheckDisk(const std::string& data_folder, Findings& out) {
  const std::string folder = FindExistingFolder(data_folder);
  struct statvfs disk;
  if (statvfs(folder.c_str(), &disk) != 0) {
    out.push_back({"disk", folder, Verdict::kNote, "it cannot be checked", ""});
    return;
  }
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  const uint64_t size = uint64_t{disk.f_blocks} * disk.f_frsize;
  const bool room = free >= kMinFreeBytes;
  out.push_back(
      {"disk", "space", room ? Verdict::kOk : Verdict::kBad,
       fmt::format("{} of {} are free below '{}'", ToMebibytes(free), ToMebibytes(size), folder),
       room ? "" : "free some space, or use another disk, with --data or --pool"});
  if (disk.f_files > 0) {
    const bool inodes = disk.f_favail >= disk.f_files / 100;
    out.push_back({"disk", "inodes", inodes ? Verdict::kOk : Verdict::kBad,
                   fmt::format("{} of {} are free", disk.f_favail, disk.f_files),
                   inodes ? "" : "remove files, or use another disk"});
  }
  std::string name = folder + "/.berth-doctor-XXXXXX";
  const base::UniqueFd file(mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid()) {
    out.push_back(
        {"disk", "fsync", Verdict::kNote, "not measured: nothing can be written here", ""});
    return;
  }
  unlink(name.c_str());
  std::vector<double> times;
  for (int i = 0; i < 11; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (pwrite(file.get(), "x", 1, i) != 1 || fsync(file.get()) != 0) break;
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  out.push_back({"disk", "fsync", Verdict::kNote,
                 fmt::format("{:.2f} ms (median of {})", times[times.size() / 2], times.size()),
                 ""});
}

void CheckCertificates(const std::string& data_folder, base::WallTime now, Findings& out) {
  std::error_code error;
  const std::filesystem::directory_iterator files(data_folder + "/api/pki", error);
  if (error) return;  // the folder does not exist yet, or only root may read it
  for (const auto& entry : files) {
    if (entry.path().extension() != ".crt") continue;
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new_file(entry.path().c_str(), "r"),
                                                        &BIO_free);
    if (bio == nullptr) continue;
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), &X509_free);
    tm end{};
    if (certificate == nullptr ||
        ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
      out.push_back({"certificates", entry.path(), Verdict::kBad, "it cannot be read",
                     "stop Berth, remove the file, and start Berth again: it makes a new one"});
      continue;
    }
    const auto left = std::chrono::system_clock::from_time_t(timegm(&end)) - now;
    const auto days = std::chrono::duration_cast<std::chrono::hours>(left).count() / 24;
    const bool good = days >= kWarnDays;
    out.push_back(
        {"certificates", entry.path().filename(), good ? Verdict::kOk : Verdict::kBad,
         days < 0 ? fmt::format("ended {} days ago", -days)
                  : fmt::format("valid for {} days", days),
         good ? "" : "restart Berth: at its start it replaces certificates that end soon"});
  }
}

}  // namespace berth::cli::doctor
