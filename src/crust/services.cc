#include "crust/services.h"

#include <errno.h>
#include <unistd.h>

#include <array>

#include "base/ipc/container_call.h"
#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "platform/errno.h"

namespace berth::crust {
namespace {

namespace ipc = base::ipc;
using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

StatusOr<std::string> FindMember(const ipc::Message& message, std::string_view name) {
  const std::string* text = message.FindText(name);
  if (text == nullptr) {
    return Error(StatusCode::kInvalidArgument, "the request has no '{}'", name);
  }
  return *text;
}

StatusOr<std::string> ReadConfigText(int fd) {
  std::string text;
  std::array<char, 65536> buffer;
  for (off_t offset = 0;;) {
    const ssize_t size = pread(fd, buffer.data(), buffer.size(), offset);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return platform::ErrnoError(errno, "read the container's config.json");
    if (size == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(size));
    offset += size;
    if (text.size() > ipc::crust::kLargestConfig) {
      return Error(StatusCode::kResourceExhausted, "the container's config.json is larger than {}",
                   ipc::crust::kLargestConfig);
    }
  }
}

// Replaces the file's content by `text`; "": there is no new config, and the file stays as it is.
// The file is emptied first, because a handler that ended before its answer may have written to it.
Status ReplaceConfigText(int fd, std::string_view text) {
  if (text.empty()) return base::OkStatus();
  if (ftruncate(fd, 0) != 0) {
    return platform::ErrnoError(errno, "empty the container's new config.json");
  }
  for (off_t offset = 0; !text.empty();) {
    const ssize_t size = pwrite(fd, text.data(), text.size(), offset);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return platform::ErrnoError(errno, "write the container's config.json");
    text.remove_prefix(static_cast<size_t>(size));
    offset += size;
  }
  return base::OkStatus();
}

ipc::Reply ReplyOfGuest(base::UniqueFd descriptor) {
  ipc::Reply reply(ipc::Message().Set(ipc::crust::kGuest, int64_t{1}));
  reply.descriptors.push_back(std::move(descriptor));
  return reply;
}

// Answers crust.create and crust.end (base/ipc/crust_call.h).
StatusOr<ipc::Reply> HandleCreate(Handler& handler, const ipc::Request& request) {
  ASSIGN_OR_RETURN(std::string sandbox, FindMember(request.message, ipc::crust::kSandbox));
  ASSIGN_OR_RETURN(std::string pod_uid, FindMember(request.message, ipc::crust::kPodUid));
  api::PodUid pod(std::move(pod_uid));
  ASSIGN_OR_RETURN(const std::string kind, FindMember(request.message, ipc::crust::kKind));
  if (kind == "sandbox") {
    ASSIGN_OR_RETURN(const std::string bundle, FindMember(request.message, ipc::crust::kBundle));
    ASSIGN_OR_RETURN(base::UniqueFd machine,
                     handler.BeginSandbox(rpc::SandboxId(sandbox), pod, bundle));
    if (machine.valid()) return ReplyOfGuest(std::move(machine));
    return ipc::Message().Set(ipc::crust::kCount, int64_t{0});
  }
  const int64_t from = request.message.FindNumber(ipc::crust::kFrom).value_or(0);
  if (request.descriptors.size() != 2 || from < 0) {
    return Error(StatusCode::kInvalidArgument, "the request does not bring a config.json");
  }
  // An earlier berth-oci sends no id, and knows no containers of guests.
  const std::string* container = request.message.FindText(ipc::container::kContainer);
  const std::string* bundle = request.message.FindText(ipc::crust::kBundle);
  CreateRequest create{.sandbox_id = std::move(sandbox),
                       .pod_uid = std::move(pod),
                       .container = container == nullptr ? "" : *container,
                       .bundle = bundle == nullptr ? "" : *bundle,
                       .terminal = request.message.FindNumber(ipc::container::kTerminal) == 1,
                       .from = static_cast<size_t>(from),
                       .most = ipc::kMostDescriptors};
  ASSIGN_OR_RETURN(create.config, ReadConfigText(request.descriptors[0].get()));
  ASSIGN_OR_RETURN(CreateReply created, handler.CreateContainer(create));
  if (created.stream.valid()) return ReplyOfGuest(std::move(created.stream));
  RETURN_IF_ERROR(ReplaceConfigText(request.descriptors[1].get(), created.config));
  ipc::Strings kinds;
  std::vector<base::UniqueFd> mounts;
  for (Graft& graft : created.grafts) {
    kinds.emplace_back(graft.folder ? "d" : "f");
    mounts.push_back(std::move(graft.mount));
  }
  ipc::Reply reply(ipc::Message()
                       .Set(ipc::crust::kCount, static_cast<int64_t>(created.count))
                       .Set(ipc::crust::kKinds, std::move(kinds)));
  reply.descriptors = std::move(mounts);
  return reply;
}

StatusOr<ipc::Reply> HandleEnd(Handler& handler, const ipc::Request& request) {
  ASSIGN_OR_RETURN(const std::string sandbox, FindMember(request.message, ipc::crust::kSandbox));
  RETURN_IF_ERROR(handler.EndSandbox(sandbox));
  return ipc::Message();
}

// Answers any other call of base/ipc/container_call.h.
StatusOr<ipc::Reply> HandleContainer(Handler& handler, const ipc::Request& request) {
  ASSIGN_OR_RETURN(const std::string sandbox, FindMember(request.message, ipc::crust::kSandbox));
  return handler.CallContainer(sandbox, request.message);
}

// Logs a failed reply, because otherwise only the container's error would show it.
StatusOr<ipc::Reply> LogRefusal(std::string_view method, StatusOr<ipc::Reply> reply) {
  if (!reply.ok()) LOG_WARNING("{}: {}", method, base::ToString(reply.status()));
  return reply;
}

}  // namespace

std::map<std::string, ipc::Method> MakeOciMethods(Handler& handler) {
  std::map<std::string, ipc::Method> methods;
  const auto add = [&](std::string_view name, auto handle) {
    methods[std::string(name)] = [&handler, name, handle](const ipc::Request& request) {
      return LogRefusal(name, handle(handler, request));
    };
  };
  add(ipc::crust::kCreate, HandleCreate);
  add(ipc::crust::kEnd, HandleEnd);
  namespace calls = ipc::container;
  for (const std::string_view name :
       {calls::kStart, calls::kExec, calls::kKill, calls::kDelete, calls::kState, calls::kProcesses,
        calls::kStats, calls::kUpdate, calls::kPause, calls::kResume}) {
    add(name, HandleContainer);
  }
  return methods;
}

}  // namespace berth::crust
