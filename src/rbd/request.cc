#include "rbd/request.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_input.h"
#include "base/log.h"
#include "rbd/cluster.h"
#include "rbd/cluster_settings.h"
#include "rbd/deletion.h"
#include "rbd/fence.h"
#include "rbd/image_calls.h"
#include "rbd/kernel_clients.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;

constexpr size_t kMostAddresses = 10000;
constexpr size_t kLongestUuid = 64;
constexpr size_t kLongestAddress = 128;

// What all calls need of the request.
struct Call {
  const Json& request;
  const Cluster& cluster;
  api::NodeName node;
  const std::function<void(double)>& report_progress;

  base::StatusOr<std::string> Image(const char* member = "image") const {
    std::string name = base::json::String(request, {member});
    RETURN_IF_ERROR_WITH(CheckImageName(name), member);
    return name;
  }
  base::StatusOr<api::NodeName> Target() const {
    std::string target = base::json::String(request, {"target"});
    RETURN_IF_ERROR_WITH(CheckNodeName(target), "target");
    return api::NodeName(std::move(target));
  }
  // The member `addresses`; nullopt: there is none.
  base::StatusOr<std::optional<std::vector<std::string>>> Addresses() const {
    const Json* list = base::json::Find(request, {"addresses"});
    if (list == nullptr) return std::optional<std::vector<std::string>>();
    auto addresses = base::json::Strings(*list);
    if (!list->is_array() || addresses.size() != list->size() || list->size() > kMostAddresses) {
      return Error(StatusCode::kInvalidArgument, "addresses is not a list of up to {} strings",
                   kMostAddresses);
    }
    return std::optional(std::move(addresses));
  }
  base::StatusOr<int64_t> Size() const {
    const int64_t size = base::json::Int(request, {"size"});
    if (size > 0) return size;
    return Error(StatusCode::kInvalidArgument, "size is not a positive number of bytes");
  }
};

// "10.0.0.5:0/3712435" or "[fd00::5]:0/3712435".
bool IsClientAddress(std::string_view address) {
  const size_t slash = address.find('/');
  if (slash == std::string_view::npos || address.size() > kLongestAddress) return false;
  const std::string_view nonce = address.substr(slash + 1);
  const std::string_view host = address.substr(0, slash);
  return !nonce.empty() && nonce.find_first_not_of("0123456789") == std::string_view::npos &&
         host.rfind(':') != std::string_view::npos &&
         host.find_first_not_of("0123456789abcdefABCDEF:.[]") == std::string_view::npos;
}

Json ToJson(const ImageInfo& info) {
  return {{"name", info.name}, {"size", info.size_bytes}, {"snapshotOf", info.snapshot_of}};
}

base::StatusOr<Json> InfoReply(const base::StatusOr<ImageInfo>& info) {
  RETURN_IF_ERROR(info);
  return ToJson(*info);
}

base::StatusOr<Json> EmptyReply(const base::Status& done) {
  RETURN_IF_ERROR(done);
  return Json::object();
}

base::StatusOr<Json> AnswerCreate(const Call& call) {
  NewImage wanted{.node = call.node};
  ASSIGN_OR_RETURN(wanted.name, call.Image());
  ASSIGN_OR_RETURN(wanted.size_bytes, call.Size());
  wanted.source = base::json::String(call.request, {"source"});
  if (!wanted.source.empty()) RETURN_IF_ERROR_WITH(CheckImageName(wanted.source), "source");
  if (wanted.source == wanted.name) {
    return Error(StatusCode::kInvalidArgument, "source: an image is no copy of itself");
  }
  return InfoReply(CreateImage(call.cluster, wanted));
}

base::StatusOr<Json> AnswerDelete(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  return EmptyReply(DeleteImage(call.cluster, image, call.node, call.report_progress));
}

base::StatusOr<Json> AnswerSnapshot(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  ASSIGN_OR_RETURN(const std::string snapshot, call.Image("snapshot"));
  if (image == snapshot) {
    return Error(StatusCode::kInvalidArgument, "snapshot: it has the name of its image");
  }
  return InfoReply(
      CreateSnapshot(call.cluster, {.image = image, .name = snapshot, .node = call.node}));
}

base::StatusOr<Json> AnswerGrow(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  ASSIGN_OR_RETURN(const int64_t size, call.Size());
  return InfoReply(GrowImage(call.cluster, image, size, call.node));
}

base::StatusOr<Json> AnswerList(const Call& call) {
  ASSIGN_OR_RETURN(const auto images, ListImages(call.cluster));
  Json list = Json::array();
  for (const ImageInfo& info : images) list.push_back(ToJson(info));
  return Json{{"images", std::move(list)}};
}

base::StatusOr<Json> AnswerHolders(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  ASSIGN_OR_RETURN(const auto holders, ListHolders(call.cluster, image, call.node));
  Json list = Json::array();
  for (const Holder& holder : holders) {
    list.push_back(
        {{"address", holder.address}, {"node", holder.node.text()}, {"alive", holder.alive}});
  }
  return Json{{"holders", std::move(list)}};
}

base::StatusOr<Json> AnswerFence(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  ASSIGN_OR_RETURN(const api::NodeName target, call.Target());
  FenceOptions options;
  ASSIGN_OR_RETURN(options.only, call.Addresses());
  ASSIGN_OR_RETURN(const auto addresses, FenceNode(call.cluster, image, target, options));
  return Json{{"addresses", addresses}};
}

base::StatusOr<Json> AnswerFenceTargets(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  ASSIGN_OR_RETURN(const api::NodeName target, call.Target());
  ASSIGN_OR_RETURN(const auto addresses, ListFenceTargets(call.cluster, image, target));
  return Json{{"addresses", addresses}};
}

base::StatusOr<Json> AnswerUnfence(const Call& call) {
  ASSIGN_OR_RETURN(const api::NodeName target, call.Target());
  ASSIGN_OR_RETURN(const auto addresses, call.Addresses());
  // An empty list names no address, so nothing is unfenced. Without a list, all addresses are.
  if (addresses.has_value() && addresses->empty()) return Json::object();
  return EmptyReply(
      UnfenceNode(call.cluster, target, addresses.value_or(std::vector<std::string>())));
}

base::StatusOr<Json> AnswerFenced(const Call& call) {
  ASSIGN_OR_RETURN(const auto nodes, ListFencedNodes(call.cluster));
  Json list = Json::object();
  for (const auto& [node, addresses] : nodes) list[node] = addresses;
  return Json{{"nodes", std::move(list)}};
}

base::StatusOr<Json> AnswerNoteUuid(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  const std::string uuid = base::json::String(call.request, {"uuid"});
  if (uuid.size() > kLongestUuid) {
    return Error(StatusCode::kInvalidArgument, "uuid has more than {} bytes", kLongestUuid);
  }
  return EmptyReply(NoteFormatting(call.cluster, image, uuid));
}

base::StatusOr<Json> AnswerReadNote(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  ASSIGN_OR_RETURN(const std::string uuid, ReadFormatting(call.cluster, image));
  return Json{{"uuid", uuid}};
}

// Reading what Berth records shows that the OSDs of the pool answer and that the user may use them.
base::StatusOr<Json> AnswerCheck(const Call& call) {
  return EmptyReply(ListFencedNodes(call.cluster).status());
}

base::StatusOr<Json> AnswerInfo(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  ASSIGN_OR_RETURN(const ImageDetails details, DescribeImage(call.cluster, image, call.node));
  Json reply = ToJson(details.info);
  reply["features"] = details.features;
  return reply;
}

// `program` is "krbd", or "" once the client no longer uses the image. Without an address it is the
// intent to map the image (kernel_clients.h).
base::StatusOr<Json> AnswerNoteHolder(const Call& call) {
  ASSIGN_OR_RETURN(const std::string image, call.Image());
  const std::string program = base::json::String(call.request, {"program"});
  const std::string address = base::json::String(call.request, {"address"});
  if (program.empty()) {
    return EmptyReply(ForgetKernelClient(call.cluster, image, call.node, address));
  }
  if (address.empty()) {
    ASSIGN_OR_RETURN(const std::string intent, NoteMapIntent(call.cluster, image, call.node));
    return Json{{"address", intent}};
  }
  if (!IsClientAddress(address)) {
    return Error(StatusCode::kInvalidArgument, "address {} is not HOST:PORT/NONCE", Quote(address));
  }
  return EmptyReply(NoteKernelClient(call.cluster, image, call.node, address));
}

using Handler = base::StatusOr<Json> (*)(const Call&);
constexpr std::array<std::pair<std::string_view, Handler>, 15> kCalls{{
    {"create", AnswerCreate},
    {"delete", AnswerDelete},
    {"snapshot", AnswerSnapshot},
    {"grow", AnswerGrow},
    {"list", AnswerList},
    {"holders", AnswerHolders},
    {"fence", AnswerFence},
    {"fenceTargets", AnswerFenceTargets},
    {"unfence", AnswerUnfence},
    {"fenced", AnswerFenced},
    {"noteHolder", AnswerNoteHolder},
    {"note", AnswerNoteUuid},
    {"readNote", AnswerReadNote},
    {"check", AnswerCheck},
    {"info", AnswerInfo},
}};

}  // namespace

base::StatusOr<Json> ReadRequest(int fd) {
  return base::json::ReadObject(fd, kLongestRequest, "standard input");
}

base::StatusOr<Json> RunCall(const Json& request,
                             const std::function<void(double)>& report_progress) {
  const std::string name = base::json::String(request, {"call"});
  Handler handler = nullptr;
  for (const auto& [known, run] : kCalls) {
    if (known == name) handler = run;
  }
  if (handler == nullptr) {
    return Error(StatusCode::kInvalidArgument, "there is no call {}", Quote(name));
  }
  const std::string node = base::json::String(request, {"node"});
  RETURN_IF_ERROR_WITH(CheckNodeName(node), "node");
  const Json* cluster = base::json::Find(request, {"cluster"});
  if (cluster == nullptr) return Error(StatusCode::kInvalidArgument, "cluster is missing");
  ASSIGN_OR_RETURN(const ClusterSettings settings, ParseClusterSettings(*cluster));
  ASSIGN_OR_RETURN(const auto connected, Cluster::Connect(settings, Use::kCall));
  return handler({.request = request,
                  .cluster = *connected,
                  .node = api::NodeName(node),
                  .report_progress = report_progress});
}

}  // namespace berth::rbd
