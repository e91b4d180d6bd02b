#include "blockexport/export_server.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/ipc/export_call.h"
#include "base/ipc/server.h"
#include "base/json_input.h"
#include "base/log.h"
#include "blockexport/flushed_store.h"
#include "blockexport/fuse_file.h"
#include "blockexport/request_threads.h"
#include "blockexport/serve_settings.h"
#include "platform/errno.h"

namespace berth::blockexport {

using base::Quote;
using base::StatusCode;
using base::ipc::Message;
using base::ipc::Request;

namespace {

namespace calls = base::ipc::volume_export;

// Of the requests that run when the process is told to quit. No device shows the file any more.
constexpr std::chrono::seconds kEndTime{5};
constexpr int kBacklog = 16;
constexpr size_t kMostCalls = 4;

base::StatusOr<base::UniqueFd> ListenAt(const std::string& path) {
  const std::string context = fmt::format("listen at {}", Quote(path));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return base::Error(StatusCode::kInvalidArgument, "{}: the path is too long for a socket",
                       context);
  }
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return platform::ErrnoError(errno, context);
  unlink(path.c_str());
  // The kernel takes the mode of the file from the socket's inode.
  if (fchmod(fd.get(), 0600) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return platform::ErrnoError(errno, context);
  }
  return fd;
}

// Serves the control calls. What it is given is borrowed.
std::unique_ptr<base::ipc::Server> ServeCalls(base::UniqueFd listener, FlushedStore& store,
                                              FuseFile& file, RequestThreads& threads) {
  base::ipc::Server::Options options{
      .name = "calls", .listener = std::move(listener), .max_calls = kMostCalls};
  options.methods[std::string(calls::kStatus)] =
      [&store](const Request& /*request*/) -> base::StatusOr<base::ipc::Reply> {
    return Message()
        .Set(calls::kSize, store.size_bytes())
        .Set(calls::kReadOnly, int64_t{store.read_only()})
        .Set(calls::kFlushed, int64_t{store.HasFlushed()});
  };
  options.methods[std::string(calls::kResize)] =
      [&store, &file](const Request& /*request*/) -> base::StatusOr<base::ipc::Reply> {
    const int64_t before = store.size_bytes();
    RETURN_IF_ERROR(store.Refresh());
    file.ShowNewSize();
    const int64_t size = store.size_bytes();
    if (size != before) LOG_INFO("the volume has {} bytes now, {} before", size, before);
    return Message().Set(calls::kSize, size);
  };
  options.methods[std::string(calls::kQuit)] =
      [&store, &file, &threads](const Request& /*request*/) -> base::StatusOr<base::ipc::Reply> {
    const int error = store.read_only() ? 0 : store.Flush();
    if (error == ESHUTDOWN) {
      // Its writes fail since then, and no later flush can succeed. The storage has nothing of this
      // client that the lock would guard.
      LOG_WARNING("the storage has shut this client out: what was not flushed before is lost");
    } else if (error != 0) {
      return base::Error(StatusCode::kDataLoss, "flush the volume: {}", strerror(error));
    }
    // Before the mount goes, because its end alone would be a failure of this process.
    threads.Stop();
    if (const base::Status unmounted = file.Unmount(); !unmounted.ok()) {
      LOG_WARNING("{}", base::ToString(unmounted));  // the I/O proxy unmounts it, too
    }
    return Message();
  };
  return std::make_unique<base::ipc::Server>(std::move(options));
}

void WriteLine(std::string_view text) {
  const std::string line = fmt::format("{}\n", text);
  fwrite(line.data(), 1, line.size(), stdout);
  fflush(stdout);
}

// Returns the exit code of the process.
base::StatusOr<int> Serve(BlockStore& storage, const ExportOptions& options) {
  PrepareProcess();  // for a program that did not read its settings by ReadSettings
  FlushedStore store(storage);
  ASSIGN_OR_RETURN(const std::unique_ptr<FuseFile> file, FuseFile::Mount(options.file, store));
  RequestThreads threads(file->session(), {.period = options.thread_period});
  auto listener = [&]() -> base::StatusOr<base::UniqueFd> {
    RETURN_IF_ERROR(threads.Start());
    return ListenAt(options.socket);
  }();
  if (!listener.ok()) {
    if (const base::Status unmounted = file->Unmount(); !unmounted.ok()) {
      LOG_WARNING("{}", base::ToString(unmounted));
    }
    threads.JoinAll(kEndTime);
    return listener.status();
  }
  LOG_INFO("the volume is served at {} with {} bytes", Quote(options.file), store.size_bytes());
  bool told = false;
  {
    const auto server = ServeCalls(*std::move(listener), store, *file, threads);
    told = threads.Wait();
  }
  LOG_INFO("the volume at {} is not served any more, because {}", Quote(options.file),
           told ? "this process was told to quit" : "its mount is gone");
  unlink(options.socket.c_str());
  if (!threads.JoinAll(kEndTime) || !file->AwaitTransfers(kEndTime)) {
    LOG_WARNING("a request does not end");
  }
  if (told) WriteLine(calls::kFlushedReport);
  return told ? 0 : 1;
}

}  // namespace

int RunExport(std::unique_ptr<BlockStore> store, const ExportOptions& options) {
  const auto exit_code = Serve(*store, options);
  if (exit_code.ok()) return *exit_code;
  ReportFailure(exit_code.status());
  return 1;
}

void ReportFailure(const base::Status& failure) {
  WriteLine(base::json::Dump(base::json::FailureReply(failure)));
}

}  // namespace berth::blockexport
