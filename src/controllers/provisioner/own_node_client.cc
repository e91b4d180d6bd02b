#include "controllers/provisioner/own_node_client.h"

#include <set>

#include "api/kinds/kinds.h"
#include "base/log.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

bool IsOfNode(const api::KindInfo& kind) {
  return &kind == &api::Node::kInfo || &kind == &api::CsiNode::kInfo;
}

Json MakeNode(const std::string& name, const csi::v1::NodeGetInfoResponse& info) {
  Json labels = Json::object();
  for (const auto& [key, value] : info.accessible_topology().segments()) labels[key] = value;
  return {{"apiVersion", api::Node::kInfo.api_version()},
          {"kind", std::string(api::Node::kInfo.kind)},
          {"metadata", {{"name", name}, {"labels", std::move(labels)}}}};
}

Json MakeCsiNode(const std::string& name, const std::string& driver,
                 const csi::v1::NodeGetInfoResponse& info) {
  // Sorted, because a map of protobuf has another order each time, which would look like a change.
  std::set<std::string> keys;
  for (const auto& [key, value] : info.accessible_topology().segments()) keys.insert(key);
  Json entry = {{"name", driver}, {"nodeID", info.node_id()}, {"topologyKeys", keys}};
  return {{"apiVersion", api::CsiNode::kInfo.api_version()},
          {"kind", std::string(api::CsiNode::kInfo.kind)},
          {"metadata", {{"name", name}}},
          {"spec", {{"drivers", Json::array({std::move(entry)})}}}};
}

}  // namespace

OwnNodeClient::OwnNodeClient(kube::Client& client, DriverConnection& driver, std::string node,
                             std::chrono::milliseconds timeout)
    : GuardedClient(client, [] { return base::OkStatus(); }),
      driver_(driver),
      node_(std::move(node)),
      timeout_(timeout) {}

std::string OwnNodeClient::ReadVersion() const {
  MutexLock lock(mutex_);
  return std::to_string(version_);
}

void OwnNodeClient::NoteDriverReady() {
  MutexLock lock(mutex_);
  ++version_;
  changed_.NotifyAll();
}

StatusOr<Json> OwnNodeClient::Describe(const api::KindInfo& kind, const std::string& version) {
  const auto known = driver_.info();
  const std::string& driver = known != nullptr ? known->name : driver_.expected_name();
  if (driver.empty()) {
    return Error(StatusCode::kUnavailable, "the driver's name is not known yet");
  }
  const auto info =
      driver_.Call(&rpc::CsiClient::NodeGetInfo, csi::v1::NodeGetInfoRequest(), timeout_);
  // Other codes could mean that the API has no such kind or forbids it.
  if (!info.ok()) {
    return Error(StatusCode::kUnavailable, "driver {} does not describe the node: {}",
                 base::Quote(driver), base::ToString(info.status()));
  }
  Json object =
      &kind == &api::Node::kInfo ? MakeNode(node_, *info) : MakeCsiNode(node_, driver, *info);
  object["metadata"]["resourceVersion"] = version;
  return object;
}

StatusOr<Json> OwnNodeClient::Get(const api::KindInfo& kind, std::string_view ns,
                                  std::string_view name) {
  if (!IsOfNode(kind)) return GuardedClient::Get(kind, ns, name);
  if (name != node_) {
    return Error(StatusCode::kNotFound, "{} '{}' is not this node's", kind.singular, name);
  }
  return Describe(kind, ReadVersion());
}

StatusOr<kube::ListResult> OwnNodeClient::List(const api::KindInfo& kind, std::string_view ns,
                                               const kube::ListOptions& options) {
  if (!IsOfNode(kind)) return GuardedClient::List(kind, ns, options);
  // If the driver becomes ready during the call, the watch ends at once.
  std::string version = ReadVersion();
  ASSIGN_OR_RETURN(Json object, Describe(kind, version));
  kube::ListResult result;
  result.items.push_back(std::move(object));
  result.resource_version = std::move(version);
  return result;
}

Status OwnNodeClient::Watch(const api::KindInfo& kind, std::string_view ns,
                            const kube::ListOptions& options, std::stop_token stop,
                            const std::function<bool(kube::WatchEvent event)>& on_event) {
  if (!IsOfNode(kind)) return GuardedClient::Watch(kind, ns, options, std::move(stop), on_event);
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (options.resource_version != std::to_string(version_)) {
      return Error(StatusCode::kOutOfRange, "the driver is ready again");
    }
    changed_.Wait(mutex_);
  }
  return Error(StatusCode::kCancelled, "stopped");
}

void ShowOwnNode(const Context& context, DriverConnection& driver, const std::string& node,
                 std::chrono::milliseconds timeout) {
  auto client = std::make_shared<OwnNodeClient>(context.client, driver, node, timeout);
  driver.OnReady([client] { client->NoteDriverReady(); });
  context.informers.ReadFrom<api::Node>(client);
  context.informers.ReadFrom<api::CsiNode>(client);
}

}  // namespace berth::controllers::provisioner
