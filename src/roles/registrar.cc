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

// Identifies the file at a path, because a socket that is made anew is another file. The time tells
// apart two files that got the same inode number one after the other.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  timespec made{};

  bool operator==(const FileId& other) const {
    return device == other.device && inode == other.inode && made.tv_sec == other.made.tv_sec &&
           made.tv_nsec == other.made.tv_nsec;
  }
};

std::optional<FileId> FileAt(const std::string& path) {
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return std::nullopt;
  // The time of modification, because a change of mode, owner or label does not make another
  // socket.
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

  void Run() {
    thread_ = std::jthread([this] { Loop(); });
  }

  Status Health() const override {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(state_);
    if (FileAt(path_) == own_) return base::OkStatus();
    return Error(StatusCode::kUnavailable, "registration socket {} is gone", Quote(path_));
  }

 private:
  void Wake() {
    MutexLock lock(mutex_);
    look_ = true;
    changed_.NotifyAll();
  }

  void Loop() {
    while (true) {
      const Status state = SyncRegistration();
      if (!state.ok() && state != told_) {
        LOG_WARNING("driver at {} is not announced: {}", Quote(options_.csi_address),
                    base::ToString(state));
      }
      told_ = state;
      MutexLock lock(mutex_);
      state_ = state;
      const auto retry = std::chrono::steady_clock::now() + options_.retry;
      while (!look_ && !stopping_) {
        if (state.ok()) {
          changed_.Wait(mutex_);
        } else if (!changed_.WaitUntil(mutex_, retry)) {
          break;
        }
      }
      if (stopping_) return;
      look_ = false;
    }
  }

  // Compares the present state with the wanted one, and corrects it.
  Status SyncRegistration() {
    RETURN_IF_ERROR(Watch(folder_watch_, options_.folder));
    RETURN_IF_ERROR(
        Watch(driver_watch_, std::filesystem::path(client_->socket()).parent_path().string()));
    const std::optional<FileId> driver = FileAt(client_->socket());
    if (server_ != nullptr && driver == driver_ && FileAt(path()) == own()) return base::OkStatus();
    csi::v1::GetPluginInfoRequest request;
    ASSIGN_OR_RETURN(const auto info, client_->GetPluginInfo(request, options_.timeout));
    if (!api::IsCsiDriverName(info.name())) {
      return Error(StatusCode::kInvalidArgument, "{} is not the name of a CSI driver",
                   Quote(info.name()));
    }
    // A driver that is ending may still answer on this connection, although its socket is removed
    // and nobody else can reach it.
    if (!driver.has_value()) {
      return Error(StatusCode::kUnavailable, "the driver's socket {} is not there",
                   Quote(client_->socket()));
    }
    return Announce(info.name(), driver);
  }

  Status Watch(std::unique_ptr<platform::FolderWatch>& watch, const std::string& folder) {
    if (watch != nullptr && FolderStands(folder)) return base::OkStatus();
    watch.reset();
    // Watches only the folder itself, because the sockets are in it, and what a driver has mounted
    // below it may hang.
    ASSIGN_OR_RETURN(watch, platform::WatchFolder(folder, [this] { Wake(); }, {.depth = 0}));
    return base::OkStatus();
  }
  static bool FolderStands(const std::string& folder) {
    std::error_code ignored;
    return std::filesystem::is_directory(folder, ignored);
  }

  Status Announce(const std::string& driver, const std::optional<FileId>& driver_file) {
    const std::string path = fmt::format("{}/{}-reg.sock", options_.folder, driver);
    server_.reset();  // so that the kubelet sees the old socket go
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
    own_ = FileAt(path);
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
  Status told_;                   // the state that was logged last

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool look_ ABSL_GUARDED_BY(mutex_) = false;
  Status state_ ABSL_GUARDED_BY(mutex_) = Error(StatusCode::kUnavailable,
                                                "the driver was not asked yet");
  std::string path_ ABSL_GUARDED_BY(mutex_);
  std::optional<FileId> own_ ABSL_GUARDED_BY(mutex_);  // our socket as we made it
  std::unique_ptr<platform::FolderWatch> folder_watch_, driver_watch_;
  std::jthread thread_;
};

}  // namespace

StatusOr<std::unique_ptr<Registrar>> Registrar::Start(Options options) {
  if (options.kubelet_path.empty()) {
    return Error(StatusCode::kInvalidArgument, "--kubelet-registration-path is required");
  }
  RETURN_IF_ERROR_WITH(rpc::SocketPath(options.kubelet_path), "--kubelet-registration-path");
  // Checked with the shortest name that a driver can have.
  RETURN_IF_ERROR_WITH(rpc::SocketPath(options.folder + "/d-reg.sock"),
                       "--plugin-registration-path");
  ASSIGN_OR_RETURN(auto client, rpc::CsiClient::New(options.csi_address));
  auto registrar = std::make_unique<RegistrarImpl>(std::move(options), std::move(client));
  registrar->Run();
  return std::unique_ptr<Registrar>(std::move(registrar));
}

}  // namespace berth::roles
