#include "block/proxy/service.h"

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "block/proxy/calls.h"

namespace berth::block::proxy {
namespace {

using base::Error;
using base::StatusCode;
using base::ipc::Message;
using base::ipc::Request;

// Whether it is a program of Berth that serves volumes: the proxy starts no other one.
bool IsProgramName(std::string_view name) {
  constexpr std::string_view kPrefix = "berth-";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() && name.size() <= 64 &&
         std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; });
}

std::string FieldText(const Message& message, std::string_view name) {
  const std::string* text = message.FindText(name);
  return text != nullptr ? *text : std::string();
}

base::StatusOr<Message> ToReply(const base::StatusOr<Shown>& shown) {
  RETURN_IF_ERROR(shown);
  Message reply;
  reply.Set(kPath, shown->path)
      .Set(kDevice, static_cast<int64_t>(shown->device))
      .Set(kSize, shown->size_bytes);
  return reply;
}

base::StatusOr<Message> OpenVolume(Exports& exports, const Message& request) {
  Volume volume{.store = FieldText(request, kStore),
                .image = FieldText(request, kImage),
                .path = FieldText(request, kPath),
                .device = static_cast<uint64_t>(request.FindNumber(kDevice).value_or(0)),
                .inode = static_cast<uint64_t>(request.FindNumber(kInode).value_or(0)),
                .server = FieldText(request, kServer),
                .export_name = FieldText(request, kExport),
                .read_only = request.FindNumber(kReadOnly).value_or(0) != 0,
                .shared = request.FindNumber(kShared).value_or(0) != 0,
                .program = FieldText(request, kProgram)};
  const bool is_served = !volume.server.empty();  // also with a path, which then only has the lock
  const int ways =
      int{!volume.path.empty() && !is_served} + int{is_served} + int{!volume.program.empty()};
  if (volume.store.empty() || ways != 1 ||
      (!volume.path.empty() && !volume.path.starts_with('/')) ||
      (!volume.program.empty() && !IsProgramName(volume.program))) {
    return Error(StatusCode::kInvalidArgument,
                 "volume {}: the request needs a store, and either an absolute path, a server or a "
                 "program of Berth",
                 base::Quote(volume.image));
  }
  if (!volume.program.empty()) {
    auto settings = base::json::Parse(FieldText(request, kSettings));
    if (!settings.ok() || !settings->is_object()) {
      return Error(StatusCode::kInvalidArgument, "volume {}: its settings are not a JSON object",
                   base::Quote(volume.image));
    }
    volume.settings = *std::move(settings);
  }
  return ToReply(exports.ShowVolume(volume));
}

base::StatusOr<Message> ListExports(const Exports& exports, const Message& request) {
  const std::string image = FieldText(request, kImage);
  base::ipc::Strings list;
  for (const Export& record : exports.List()) {
    if (!image.empty() && record.volume.image != image) continue;
    list.push_back(base::json::Dump({{"store", record.volume.store},
                                     {"image", record.volume.image},
                                     {"state", StateName(record.state)},
                                     {"reason", record.reason},
                                     {"path", record.volume.path},
                                     {"server", record.volume.server},
                                     {"program", record.volume.program},
                                     {"readOnly", record.volume.read_only},
                                     {"shownOn", record.shown_on},
                                     {"pid", record.daemon.pid}}));
  }
  Message reply;
  reply.Set(kExports, std::move(list));
  return reply;
}

}  // namespace

std::unique_ptr<base::ipc::Server> ServeExports(Exports& exports, base::UniqueFd listener) {
  const auto done = [](const base::Status& status) -> base::StatusOr<Message> {
    RETURN_IF_ERROR(status);
    return Message();
  };
  base::ipc::Server::Options options{.name = "io-proxy", .listener = std::move(listener)};
  options.methods[std::string(kOpen)] = [&exports](const Request& request) {
    return OpenVolume(exports, request.message);
  };
  options.methods[std::string(kResize)] = [&exports](const Request& request) {
    return ToReply(exports.Resize(FieldText(request.message, kStore),
                                  FieldText(request.message, kImage),
                                  request.message.FindNumber(kSize).value_or(0)));
  };
  options.methods[std::string(kClose)] = [&exports, done](const Request& request) {
    return done(
        exports.Close(FieldText(request.message, kStore), FieldText(request.message, kImage)));
  };
  options.methods[std::string(kKill)] = [&exports, done](const Request& request) {
    return done(
        exports.Kill(FieldText(request.message, kStore), FieldText(request.message, kImage)));
  };
  options.methods[std::string(kList)] = [&exports](const Request& request) {
    return ListExports(exports, request.message);
  };
  return std::make_unique<base::ipc::Server>(std::move(options));
}

}  // namespace berth::block::proxy
