#include "block/proxy/client.h"

#include "base/ipc/connection.h"
#include "base/log.h"
#include "block/proxy/calls.h"
#include "block/proxy/ipc_problem.h"

namespace berth::block::proxy {

using base::Error;
using base::StatusCode;
using base::ipc::Message;

namespace {

base::StatusOr<Shown> ParseShown(const base::StatusOr<Message>& reply) {
  RETURN_IF_ERROR(reply);
  const std::string* path = reply->FindText(kPath);
  if (path == nullptr) {
    return Error(StatusCode::kInternal, "the I/O proxy's answer names no file");
  }
  return Shown{.path = *path,
               .device = static_cast<uint64_t>(reply->FindNumber(kDevice).value_or(0)),
               .size_bytes = reply->FindNumber(kSize).value_or(0)};
}

}  // namespace

base::StatusOr<Message> Client::Call(const Message& request,
                                     std::chrono::milliseconds within) const {
  if (socket_.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "access Proxy needs `berth io-proxy` on this node, but the agent has no flag "
                 "--io-proxy-socket");
  }
  auto reply = base::ipc::Call(socket_, request, base::ipc::DeadlineIn(within));
  if (reply.ok()) return *std::move(reply);
  return Error(CodeOf(reply.failure()), "ask the I/O proxy at {}: {}", base::Quote(socket_),
               reply.failure().text);
}

Message Client::MakeRequest(std::string_view method, const std::string& image) const {
  Message request;
  request.Set(base::ipc::kMethod, std::string(method)).Set(kStore, store_).Set(kImage, image);
  return request;
}

base::StatusOr<Shown> Client::Open(const Volume& volume) const {
  Message request = MakeRequest(kOpen, volume.image);
  if (!volume.path.empty()) {
    request.Set(kPath, volume.path)
        .Set(kDevice, static_cast<int64_t>(volume.device))
        .Set(kInode, static_cast<int64_t>(volume.inode));
  }
  if (!volume.server.empty()) {
    request.Set(kServer, volume.server).Set(kExport, volume.export_name);
  }
  if (!volume.program.empty()) {
    request.Set(kProgram, volume.program).Set(kSettings, base::json::Dump(volume.settings));
  }
  request.Set(kReadOnly, int64_t{volume.read_only}).Set(kShared, int64_t{volume.shared});
  return ParseShown(Call(request, kCallTime));
}

base::StatusOr<Shown> Client::Resize(const std::string& image, int64_t size) const {
  Message request = MakeRequest(kResize, image);
  request.Set(kSize, size);
  return ParseShown(Call(request, kCallTime));
}

base::Status Client::Close(const std::string& image) const {
  return Call(MakeRequest(kClose, image), kCallTime).status();
}

base::Status Client::Kill(const std::string& image, std::chrono::milliseconds within) const {
  return Call(MakeRequest(kKill, image), within).status();
}

base::StatusOr<std::vector<base::Json>> Client::List(const std::string& image) const {
  ASSIGN_OR_RETURN(const Message reply, Call(MakeRequest(kList, image), kCallTime));
  std::vector<base::Json> exports;
  const base::ipc::Strings* list = reply.FindList(kExports);
  if (list == nullptr) return exports;
  for (const std::string& text : *list) {
    ASSIGN_OR_RETURN(base::Json one, base::json::Parse(text));
    if (base::json::String(one, {"store"}) == store_) exports.push_back(std::move(one));
  }
  return exports;
}

std::string Client::Folder() const { return Exports::FolderOf(run_folder(), store_); }

}  // namespace berth::block::proxy
