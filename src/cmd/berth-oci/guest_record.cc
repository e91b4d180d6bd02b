#include "cmd/berth-oci/guest_record.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/whole_file.h"
#include "base/ipc/crust_call.h"
#include "base/ipc/message.h"
#include "base/unique_fd.h"
#include "cmd/berth-oci/files.h"

namespace berth::oci {

namespace ipc = base::ipc;
using base::UniqueFd;
using ipc::Failure;
using ipc::Result;

namespace {

constexpr size_t kLargestRecord = 64 * 1024;
constexpr std::string_view kFile = "/guest.json";
constexpr std::string_view kIsSandbox = "is_sandbox";

std::string FolderOf(const std::string& path) { return path.substr(0, path.size() - kFile.size()); }

}  // namespace

std::string GuestRecordPath(const std::string& root, const std::string& id) {
  return ipc::crust::IsId(id) ? root + "/" + id + std::string(kFile) : "";
}

Failure WriteGuestRecord(const std::string& path, const GuestRecord& record) {
  const std::string folder = FolderOf(path);
  for (size_t at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1)) {
    mkdir(folder.substr(0, at).c_str(), 0711);
  }
  if (mkdir(folder.c_str(), 0711) != 0 && errno != EEXIST) {
    return ipc::SystemFailure("make '" + folder + "'", errno);
  }
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid() && errno == EEXIST) {
    return {ipc::Problem::kRefused, "container with given ID already exists", "ALREADY_EXISTS"};
  }
  const std::string text = ipc::WriteJson(ipc::Message()
                                              .Set(ipc::crust::kSandbox, record.sandbox)
                                              .Set(ipc::crust::kBundle, record.bundle)
                                              .Set(kIsSandbox, record.is_sandbox ? 1 : 0));
  const int error = file.valid() ? base::WriteAll(file.get(), text) : errno;
  return error == 0 ? ipc::Ok() : ipc::SystemFailure("write '" + path + "'", error);
}

Result<GuestRecord> ReadGuestRecord(const std::string& path) {
  if (path.empty()) return Failure{ipc::Problem::kNobody, "there is no record", ""};
  const Result<std::string> text = ReadFile(path, kLargestRecord);
  if (!text.ok()) return text.failure();
  const Result<ipc::Message> message = ipc::ReadJson(*text);
  if (!message.ok()) return message.failure();
  const std::string* sandbox = message->FindText(ipc::crust::kSandbox);
  const std::string* bundle = message->FindText(ipc::crust::kBundle);
  if (sandbox == nullptr || bundle == nullptr) {
    return Failure{ipc::Problem::kBroken, "'" + path + "' is damaged", ""};
  }
  return GuestRecord{.sandbox = *sandbox,
                     .bundle = *bundle,
                     .is_sandbox = message->FindNumber(kIsSandbox).value_or(0) != 0};
}

void RemoveGuestRecord(const std::string& path) {
  unlink(path.c_str());
  rmdir(FolderOf(path).c_str());
}

Result<int> LockGuestRecord(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return ipc::SystemFailure("open '" + path + "'", errno);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  if (fcntl(file, F_SETLK, &lock) != 0) return ipc::SystemFailure("lock '" + path + "'", errno);
  return file;
}

pid_t FindStandIn(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock{};
  lock.l_type = F_WRLCK;
  if (!file.valid() || fcntl(file.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
  return lock.l_pid;
}

}  // namespace berth::oci
