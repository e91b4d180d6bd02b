#include "roles/registrar.h"

#include <google/protobuf/util/message_differencer.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "api/kinds/csi_names.h"
#include "base/log.h"
#include "base/mutex.h"
#include "platform/files/watch_folder.h"
#include "rpc/csi_client.h"
#include "rpc/registration_client.h"
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
  RegistrarImpl(Options options, std::string driver_socket)
      : options_(std::move(options)), driver_socket_(std::move(driver_socket)) {}

  ~RegistrarImpl() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
      if (client_ != nullptr) client_->CancelAll();
    }
    if (thread_.joinable()) thread_.join();
    driver_watch_.reset();
    folder_watch_.reset();
  }

  void StartThread() {
    thread_ = std::jthread([this] { KeepAnnounced(); });
  }

  Status CheckHealth() const override {
    Announcement announcement;
    Status state;
    {
      MutexLock lock(mutex_);
      announcement = announcement_;
      state = state_;
    }
    const std::string& path = announcement.path;
    struct stat found{};
    const int error = path.empty() || stat(path.c_str(), &found) == 0 ? 0 : errno;
    if (path.empty() || error == ENOENT) {
      return Error(StatusCode::kNotFound, "registration socket does not exist{}{}",
                   state.ok() ? "" : ": ", base::Message(state));
    }
    if (error != 0) {
      return Error(StatusCode::kUnavailable, "stat {}: {}", Quote(path), strerror(error));
    }
    if (!S_ISSOCK(found.st_mode)) {
      return Error(StatusCode::kUnavailable, "{} is not a socket", Quote(path));
    }
    const auto info = rpc::GetPluginInfo(path, options_.timeout);
    if (!info.ok()) {
      return Error(StatusCode::kUnavailable, "registration socket {}: {}", Quote(path),
                   base::ToString(info.status()));
    }
    if (info->name == announcement.driver) return base::OkStatus();
    return Error(StatusCode::kUnavailable, "registration socket {} announces another driver, {}",
                 Quote(path), Quote(info->name));
  }

 private:
  struct Announcement {
    std::string driver;
    std::string path;           // of the registration socket; empty: nothing was announced yet
    std::optional<FileId> own;  // the socket that the registrar made there
  };

  void RequestCheck() {
    MutexLock lock(mutex_);
    check_requested_ = true;
    changed_.NotifyAll();
  }

  // The thread: announces the driver, and announces it again when the registrar's socket is gone or
  // the driver was restarted and describes the node differently.
  void KeepAnnounced() {
    while (true) {
      check_again_ = false;
      const Status state = SyncRegistration();
      if (IsStopping()) return;
      if (!state.ok() && state != logged_) {
        LOG_WARNING("driver at {} is not announced: {}", Quote(options_.csi_address),
                    base::ToString(state));
      }
      logged_ = state;
      MutexLock lock(mutex_);
      state_ = state;
      const auto retry = std::chrono::steady_clock::now() + options_.retry;
      while (!check_requested_ && !stopping_) {
        if (state.ok() && !check_again_) {
          changed_.Wait(mutex_);
        } else if (!changed_.WaitUntil(mutex_, retry)) {
          break;
        }
      }
      if (stopping_) return;
      check_requested_ = false;
    }
  }

  // Compares the present state with the wanted one, and corrects it. OK: the driver is announced.
  Status SyncRegistration() {
    RETURN_IF_ERROR(EnsureWatch(folder_watch_, options_.folder));
    const Status watched =
        EnsureWatch(driver_watch_, std::filesystem::path(driver_socket_).parent_path().string());
    const std::optional<FileId> driver = ReadSocketId(driver_socket_);
    const Announcement announcement = ReadAnnouncement();
    const std::optional<FileId> present = ReadSocketId(announcement.path);
    if (server_ == nullptr || !present.has_value() || present != announcement.own) {
      RETURN_IF_ERROR(watched);
      return Announce(driver);
    }
    check_again_ = !watched.ok();
    if (!driver.has_value() || (driver == driver_ && node_info_.has_value())) {
      return base::OkStatus();
    }
    return CompareNodeInfo(driver, announcement.driver);
  }

  // Asks a driver that was restarted, or that did not answer before its announcement, for what the
  // kubelet asked it, and announces it again if the answer has changed. If the driver does not
  // answer, it stays announced and is asked again.
  Status CompareNodeInfo(const std::optional<FileId>& driver, const std::string& name) {
    auto info = ReadNodeInfo();
    if (!info.ok()) {
      check_again_ = true;
      return base::OkStatus();
    }
    if (!node_info_.has_value() ||
        google::protobuf::util::MessageDifferencer::Equals(*node_info_, *info)) {
      driver_ = driver;
      node_info_ = *std::move(info);
      return base::OkStatus();
    }
    LOG_INFO("driver '{}' was restarted and describes the node differently: it is announced again",
             name);
    const Status announced = Announce(driver);
    if (server_ == nullptr) return announced;
    check_again_ |= !announced.ok();
    return base::OkStatus();
  }

  bool IsStopping() const {
    MutexLock lock(mutex_);
    return stopping_;
  }

  // A connection of its own for each call, because a driver that is ending may still answer on an
  // older one, although another file is at its path. The end of the registrar cancels the call.
  StatusOr<std::shared_ptr<rpc::CsiClient>> Connect() {
    ASSIGN_OR_RETURN(std::shared_ptr<rpc::CsiClient> client,
                     rpc::CsiClient::New(options_.csi_address));
    MutexLock lock(mutex_);
    if (stopping_) return Error(StatusCode::kCancelled, "the registrar ends");
    client_ = client;
    return client;
  }

  StatusOr<csi::v1::NodeGetInfoResponse> ReadNodeInfo() {
    ASSIGN_OR_RETURN(const auto client, Connect());
    auto info = client->NodeGetInfo(csi::v1::NodeGetInfoRequest(), options_.timeout);
    if (info.status().code() == StatusCode::kUnimplemented) return csi::v1::NodeGetInfoResponse();
    return info;
  }

  // Sets `watch` if it is not set, or if `folder` was removed.
  Status EnsureWatch(std::unique_ptr<platform::FolderWatch>& watch, const std::string& folder) {
    if (watch != nullptr && FolderExists(folder)) return base::OkStatus();
    watch.reset();
    // The watch has depth 0, because the sockets are in the folder itself, and access to a mount of
    // the driver below it may hang.
    ASSIGN_OR_RETURN(watch,
                     platform::WatchFolder(folder, [this] { RequestCheck(); }, {.max_depth = 0}));
    return base::OkStatus();
  }
  static bool FolderExists(const std::string& folder) {
    std::error_code ignored;
    return std::filesystem::is_directory(folder, ignored);
  }

  Status Announce(const std::optional<FileId>& driver_file) {
    if (!driver_file.has_value()) {
      return Error(StatusCode::kUnavailable, "the driver's socket {} does not exist",
                   Quote(driver_socket_));
    }
    ASSIGN_OR_RETURN(const auto client, Connect());
    csi::v1::GetPluginInfoRequest request;
    ASSIGN_OR_RETURN(const auto info, client->GetPluginInfo(request, options_.timeout));
    const std::string& driver = info.name();
    if (!api::IsCsiDriverName(driver)) {
      return Error(StatusCode::kInvalidArgument, "{} is not the name of a CSI driver",
                   Quote(driver));
    }
    // The kubelet asks later than this. If the driver is restarted in between, its socket is not
    // `driver_file`, and it is asked again.
    auto node_info = ReadNodeInfo();
    if (IsStopping()) return Error(StatusCode::kCancelled, "the registrar ends");
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
    node_info_.reset();
    check_again_ = !node_info.ok();
    if (node_info.ok()) node_info_ = *std::move(node_info);
    MutexLock lock(mutex_);
    announcement_ = {.driver = driver, .path = path, .own = ReadSocketId(path)};
    return base::OkStatus();
  }

  Announcement ReadAnnouncement() const {
    MutexLock lock(mutex_);
    return announcement_;
  }

  const Options options_;
  const std::string driver_socket_;  // its path
  // Only the thread uses these.
  std::unique_ptr<rpc::RegistrationServer> server_;
  std::optional<FileId> driver_;  // the driver's socket when it answered last
  std::optional<csi::v1::NodeGetInfoResponse> node_info_;  // at the announcement
  bool check_again_ = false;  // after `retry`, although the driver is announced
  Status logged_;             // the state that was logged last

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<rpc::CsiClient> client_ ABSL_GUARDED_BY(mutex_);  // of the last call
  bool check_requested_ ABSL_GUARDED_BY(mutex_) = false;
  Status state_ ABSL_GUARDED_BY(mutex_) = Error(StatusCode::kUnavailable,
                                                "the driver has not been asked yet");
  Announcement announcement_ ABSL_GUARDED_BY(mutex_);
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
  auto registrar = std::make_unique<RegistrarImpl>(std::move(options), client->socket());
  registrar->StartThread();
  return std::unique_ptr<Registrar>(std::move(registrar));
}

}  // namespace berth::roles
