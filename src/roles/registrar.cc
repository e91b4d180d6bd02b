#include "roles/registrar.h"

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "api/kinds/csi_names.h"
#include "base/log.h"
#include "base/mutex.h"
#include "platform/files/watch_folder.h"
#include "rpc/csi_client.h"
#include "rpc/unix_server.h"
#include "rpc/unix_socket.h"

namespace berth::roles {

using base::Error;
using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// Identifies the file at a path, because a socket that is made again is another file. The time
// distinguishes two files that got the same inode number one after the other.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  timespec modified{};

  bool operator==(const FileId& other) const {
    return device == other.device && inode == other.inode &&
           modified.tv_sec == other.modified.tv_sec && modified.tv_nsec == other.modified.tv_nsec;
  }
};

// Returns the identity of the socket at `path`; nullopt if there is no socket.
std::optional<FileId> ReadSocketId(const std::string& path) {
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return std::nullopt;
  // The time is that of modification and not of change, because a change of mode, owner or label
  // does not make another socket.
  return FileId{found.st_dev, found.st_ino, found.st_mtim};
}

class RegistrarImpl : public Registrar {
 public:
  RegistrarImpl(Options options, std::unique_ptr<rpc::CsiClient> client)
      : options_(std::move(options)), client_(std::move(client)) {}

  ~RegistrarImpl() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
    driver_watch_.reset();
    folder_watch_.reset();
  }

  void StartThread() {
    thread_ = std::jthread([this] { KeepAnnounced(); });
  }

  Status CheckHealth() const override {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(state_);
    if (ReadSocketId(path_) == own_) return base::OkStatus();
    return Error(StatusCode::kUnavailable, "registration socket {} is gone", Quote(path_));
  }

 private:
  void RequestCheck() {
    MutexLock lock(mutex_);
    check_requested_ = true;
    changed_.NotifyAll();
  }

  // The thread: announces the driver, and announces it again when its socket or the registrar's
  // socket has changed.
  void KeepAnnounced() {
    while (true) {
      const Status state = SyncRegistration();
      if (!state.ok() && state != logged_) {
        LOG_WARNING("driver at {} is not announced: {}", Quote(options_.csi_address),
                    base::ToString(state));
      }
      logged_ = state;
      MutexLock lock(mutex_);
      state_ = state;
      const auto retry = std::chrono::steady_clock::now() + options_.retry;
      while (!check_requested_ && !stopping_) {
        if (state.ok()) {
          changed_.Wait(mutex_);
        } else if (!changed_.WaitUntil(mutex_, retry)) {
          break;
        }
      }
      if (stopping_) return;
      check_requested_ = false;
    }
  }

  // Compares the present state with the wanted one, and corrects it.
  Status SyncRegistration() {
    RETURN_IF_ERROR(EnsureWatch(folder_watch_, options_.folder));
    RETURN_IF_ERROR(EnsureWatch(driver_watch_,
                                std::filesystem::path(client_->socket()).parent_path().string()));
    const std::optional<FileId> driver = ReadSocketId(client_->socket());
    if (server_ != nullptr && driver == driver_ && ReadSocketId(path()) == own()) {
      return base::OkStatus();
    }
    csi::v1::GetPluginInfoRequest request;
    ASSIGN_OR_RETURN(const auto info, client_->GetPluginInfo(request, options_.timeout));
    if (!api::IsCsiDriverName(info.name())) {
      return Error(StatusCode::kInvalidArgument, "{} is not the name of a CSI driver",
                   Quote(info.name()));
    }
    // A driver that is ending may still answer on this connection, although its socket is removed,
    // so that the kubelet cannot reach it.
    if (!driver.has_value()) {
      return Error(StatusCode::kUnavailable, "the driver's socket {} does not exist",
                   Quote(client_->socket()));
    }
    return Announce(info.name(), driver);
  }

  // Sets `watch` if it is not set, or if `folder` was removed.
  Status EnsureWatch(std::unique_ptr<platform::FolderWatch>& watch, const std::string& folder) {
    if (watch != nullptr && FolderExists(folder)) return base::OkStatus();
    watch.reset();
    // The watch has depth 0, because the sockets are in the folder itself, and access to a mount of
    // the driver below it may hang.
    ASSIGN_OR_RETURN(watch,
                     platform::WatchFolder(folder, [this] { RequestCheck(); }, {.depth = 0}));
    return base::OkStatus();
  }
  static bool FolderExists(const std::string& folder) {
    std::error_code ignored;
    return std::filesystem::is_directory(folder, ignored);
  }

  Status Announce(const std::string& driver, const std::optional<FileId>& driver_file) {
    const std::string path = fmt::format("{}/{}-reg.sock", options_.folder, driver);
    server_.reset();  // removes the old socket, so that the kubelet notices the change
    ASSIGN_OR_RETURN(server_, rpc::RegistrationServer::Start(
                                  path, driver, options_.kubelet_path,
                                  [driver](bool registered, const std::string& error) {
                                    if (registered) {
                                      LOG_INFO("the kubelet has registered driver '{}'", driver);
                                    } else {
                                      LOG_ERROR(
                                          "the kubelet refuses driver '{}' and will ask again: {}",
                                          driver, Quote(error));
                                    }
                                  }));
    LOG_INFO("driver '{}' is announced at {}", driver, Quote(path));
    driver_ = driver_file;
    MutexLock lock(mutex_);
    path_ = path;
    own_ = ReadSocketId(path);
    return base::OkStatus();
  }

  std::string path() const {
    MutexLock lock(mutex_);
    return path_;
  }
  std::optional<FileId> own() const {
    MutexLock lock(mutex_);
    return own_;
  }

  const Options options_;
  const std::unique_ptr<rpc::CsiClient> client_;
  // Only the thread uses these.
  std::unique_ptr<rpc::RegistrationServer> server_;
  std::optional<FileId> driver_;  // the driver's socket when it was announced
  Status logged_;                 // the state that was logged last

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool check_requested_ ABSL_GUARDED_BY(mutex_) = false;
  Status state_ ABSL_GUARDED_BY(mutex_) = Error(StatusCode::kUnavailable,
                                                "the driver has not been asked yet");
  std::string path_ ABSL_GUARDED_BY(mutex_);
  std::optional<FileId> own_ ABSL_GUARDED_BY(mutex_);  // the socket that the registrar made
  std::unique_ptr<platform::FolderWatch> folder_watch_, driver_watch_;
  std::jthread thread_;
};

}  // namespace

StatusOr<std::unique_ptr<Registrar>> Registrar::Start(Options options) {
  if (options.kubelet_path.empty()) {
    return Error(StatusCode::kInvalidArgument, "--kubelet-registration-path is required");
  }
  RETURN_IF_ERROR_WITH(rpc::SocketPath(options.kubelet_path), "--kubelet-registration-path");
  // The folder is checked with the shortest driver name, because the name is not known yet.
  RETURN_IF_ERROR_WITH(rpc::SocketPath(options.folder + "/d-reg.sock"),
                       "--plugin-registration-path");
  ASSIGN_OR_RETURN(auto client, rpc::CsiClient::New(options.csi_address));
  auto registrar = std::make_unique<RegistrarImpl>(std::move(options), std::move(client));
  registrar->StartThread();
  return std::unique_ptr<Registrar>(std::move(registrar));
}

}  // namespace berth::roles
