#include "node/drivers/csi_node.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "base/fault.h"
#include "base/log.h"

namespace berth::node {
namespace {

using base::Error;
using base::Json;
using base::OkStatus;
using base::Status;
using base::StatusCode;

constexpr std::string_view kNodeIdAnnotation = "csi.volume.kubernetes.io/nodeid";
constexpr int kTries = 8;
constexpr auto kFirstDelay = std::chrono::milliseconds(10);

// The field `allocatable` of an entry; null for a driver without a limit.
Json CountOf(const NodeDriver& driver) {
  if (driver.max_volumes == 0) return nullptr;
  return {{"count", std::min<int64_t>(driver.max_volumes, std::numeric_limits<int32_t>::max())}};
}

Json EntryOf(const NodeDriver& driver) {
  Json keys = Json::array();
  for (const auto& [key, value] : driver.topology) keys.push_back(key);  // a map: sorted
  Json entry = {{"name", driver.name}, {"nodeID", driver.node_id}, {"topologyKeys", keys}};
  if (Json count = CountOf(driver); !count.is_null()) entry["allocatable"] = std::move(count);
  return entry;
}

bool IsSameExceptCount(Json a, Json b) {
  a.erase("allocatable");
  b.erase("allocatable");
  // An absent list and an empty one are the same.
  for (Json* entry : {&a, &b}) {
    if (!entry->contains("topologyKeys") || (*entry)["topologyKeys"].is_null()) {
      (*entry)["topologyKeys"] = Json::array();
    }
  }
  return a == b;
}

Json OwnerOf(const api::Node& node) {
  return {{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node.name()}, {"uid", node.uid()}}};
}

bool IsOwnedBy(const Json& csi_node, const api::Node& node) {
  for (const Json& owner : base::json::Array(csi_node, {"metadata", "ownerReferences"})) {
    if (base::json::String(owner, {"kind"}) == "Node") {
      return base::json::String(owner, {"uid"}) == node.uid();
    }
  }
  return false;
}

// Makes the Node the owner, in place of an earlier node of this name; otherwise the garbage
// collector would delete the CSINode together with the earlier node.
void SetOwner(Json& csi_node, const api::Node& node) {
  Json owners = OwnerOf(node);
  for (const Json& owner : base::json::Array(csi_node, {"metadata", "ownerReferences"})) {
    if (base::json::String(owner, {"kind"}) != "Node") owners.push_back(owner);
  }
  base::json::Set(csi_node, {"metadata", "ownerReferences"}, std::move(owners));
}

// The drivers without `name`.
Json RemoveEntry(const Json& drivers, const std::string& name) {
  Json out = Json::array();
  for (const Json& entry : drivers) {
    if (base::json::String(entry, {"name"}) != name) out.push_back(entry);
  }
  return out;
}

const Json* EntryNamed(const Json& drivers, const std::string& name) {
  for (const Json& entry : drivers) {
    if (base::json::String(entry, {"name"}) == name) return &entry;
  }
  return nullptr;
}

}  // namespace

Status CsiNodes::RetryOnConflict(const std::function<Status()>& write) const {
  auto delay = kFirstDelay;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) {
      std::this_thread::sleep_for(delay);
      delay *= 2;
    }
    status = write();
    if (status.code() != StatusCode::kAborted && status.code() != StatusCode::kAlreadyExists) break;
  }
  return status;
}

Status CsiNodes::PatchNode(const NodeDriver& driver, bool add) {
  const auto read = kube::Get<api::Node>(client_, "", node_name_);
  if (!add && read.status().code() == StatusCode::kNotFound) return OkStatus();
  RETURN_IF_ERROR_WITH(read, fmt::format("read node '{}'", node_name_));
  const std::string text = read->annotation(kNodeIdAnnotation);
  Json ids = base::json::Parse(text).value_or(Json::object());
  if (!ids.is_object()) ids = Json::object();
  const Json before = ids;
  Json labels = Json::object();
  if (add) {
    ids[driver.name] = driver.node_id;
    const api::Labels present = read->labels();
    for (const auto& [key, value] : driver.topology) {
      const auto label = present.find(key);
      if (label == present.end()) {
        labels[key] = value;
      } else if (label->second != value) {
        return Error(
            StatusCode::kFailedPrecondition,
            "topology key '{}' of driver '{}' is '{}', but the label of node '{}' says '{}'", key,
            driver.name, value, node_name_, label->second);
      }
    }
  } else {
    ids.erase(driver.name);
  }
  if (ids == before && labels.empty()) return OkStatus();
  Json annotation = ids.empty() ? Json(nullptr) : Json(base::json::Dump(ids));
  Json metadata = {{"resourceVersion", read->resource_version()},
                   {"annotations", {{std::string(kNodeIdAnnotation), std::move(annotation)}}}};
  if (!labels.empty()) metadata["labels"] = std::move(labels);
  return kube::MergePatch(client_, *read, {{"metadata", std::move(metadata)}}).status();
}

Status CsiNodes::CreateCsiNode(const Json& drivers, const api::Node& node) {
  return client_
      .Create(api::kinds::kCsiNode, "",
              {{"apiVersion", "storage.k8s.io/v1"},
               {"kind", "CSINode"},
               {"metadata", {{"name", node_name_}, {"ownerReferences", OwnerOf(node)}}},
               {"spec", {{"drivers", drivers}}}})
      .status();
}

Status CsiNodes::WriteCsiNode(const NodeDriver& driver, bool add) {
  std::optional<api::Node> node;
  if (add) {
    auto found = kube::Get<api::Node>(client_, "", node_name_);
    RETURN_IF_ERROR_WITH(found, fmt::format("read node '{}'", node_name_));
    node = *std::move(found);
  }
  auto read = client_.Get(api::kinds::kCsiNode, "", node_name_);
  if (read.status().code() == StatusCode::kNotFound) {
    return add ? CreateCsiNode(Json::array({EntryOf(driver)}), *node) : OkStatus();
  }
  RETURN_IF_ERROR(read);
  Json object = *std::move(read);
  const Json drivers = base::json::Array(object, {"spec", "drivers"});
  const Json* present = EntryNamed(drivers, driver.name);
  const auto put = [&](Json list) -> Status {
    base::json::Set(object, {"spec", "drivers"}, std::move(list));
    auto written = client_.Update(api::kinds::kCsiNode, object, "");
    RETURN_IF_ERROR(written);
    object = *std::move(written);
    return OkStatus();
  };
  if (!add) return present == nullptr ? OkStatus() : put(RemoveEntry(drivers, driver.name));
  const Json entry = EntryOf(driver);
  const bool owned = IsOwnedBy(object, *node);
  if (present != nullptr && *present == entry && owned) return OkStatus();
  if (!owned) SetOwner(object, *node);
  // Only the count of an entry may change; any other change is a removal and an addition.
  if (present != nullptr && !IsSameExceptCount(*present, entry)) {
    RETURN_IF_ERROR(put(RemoveEntry(drivers, driver.name)));
  }
  Json list = RemoveEntry(drivers, driver.name);
  list.push_back(entry);
  return put(std::move(list));
}

Status CsiNodes::EnsureCsiNode() {
  const Status made = RetryOnConflict([&]() -> Status {
    const auto read = client_.Get(api::kinds::kCsiNode, "", node_name_);
    if (read.status().code() != StatusCode::kNotFound) return read.status();
    const auto node = kube::Get<api::Node>(client_, "", node_name_);
    RETURN_IF_ERROR_WITH(node, fmt::format("read node '{}'", node_name_));
    return CreateCsiNode(Json::array(), *node);
  });
  return base::Annotate(made, fmt::format("make CSINode '{}'", node_name_));
}

Status CsiNodes::AddDriver(const NodeDriver& driver) {
  if (driver.node_id.empty()) {
    return Error(StatusCode::kInvalidArgument, "driver '{}' gave no node id", driver.name);
  }
  if (driver.max_volumes < 0) {
    return Error(StatusCode::kInvalidArgument, "driver '{}' gave a negative max_volumes_per_node",
                 driver.name);
  }
  RETURN_IF_ERROR(base::FaultPoint<"node.csi_node.add">());
  RETURN_IF_ERROR_WITH(RetryOnConflict([&] { return PatchNode(driver, true); }),
                       fmt::format("write driver '{}' to node '{}'", driver.name, node_name_));
  RETURN_IF_ERROR_WITH(RetryOnConflict([&] { return WriteCsiNode(driver, true); }),
                       fmt::format("write driver '{}' to CSINode '{}'", driver.name, node_name_));
  return OkStatus();
}

base::StatusOr<std::vector<std::string>> CsiNodes::ReadDrivers() const {
  std::vector<std::string> names;
  const auto read = kube::Get<api::CsiNode>(client_, "", node_name_);
  if (read.status().code() == StatusCode::kNotFound) return names;
  RETURN_IF_ERROR_WITH(read, fmt::format("read CSINode '{}'", node_name_));
  for (const auto& driver : read->drivers()) names.push_back(driver.name);
  return names;
}

Status CsiNodes::UpdateCount(const NodeDriver& driver) {
  if (driver.max_volumes < 0) {
    return Error(StatusCode::kInvalidArgument, "driver '{}' gave a negative max_volumes_per_node",
                 driver.name);
  }
  const Status written = RetryOnConflict([&]() -> Status {
    auto read = client_.Get(api::kinds::kCsiNode, "", node_name_);
    RETURN_IF_ERROR(read);
    Json object = *std::move(read);
    Json drivers = base::json::Array(object, {"spec", "drivers"});
    bool changed = false;
    for (Json& entry : drivers) {
      if (base::json::String(entry, {"name"}) != driver.name) continue;
      const Json before = entry;
      entry.erase("allocatable");
      if (Json count = CountOf(driver); !count.is_null()) entry["allocatable"] = std::move(count);
      changed = entry != before;
    }
    if (!changed) return OkStatus();
    base::json::Set(object, {"spec", "drivers"}, std::move(drivers));
    return client_.Update(api::kinds::kCsiNode, object, "").status();
  });
  return base::Annotate(
      written, fmt::format("update the volume count of driver '{}' in CSINode '{}'", driver.name,
                           node_name_));
}

Status CsiNodes::RemoveDriver(const std::string& driver) {
  const NodeDriver gone{.name = driver};
  RETURN_IF_ERROR(base::FaultPoint<"node.csi_node.remove">());
  RETURN_IF_ERROR_WITH(RetryOnConflict([&] { return WriteCsiNode(gone, false); }),
                       fmt::format("remove driver '{}' from CSINode '{}'", driver, node_name_));
  RETURN_IF_ERROR_WITH(RetryOnConflict([&] { return PatchNode(gone, false); }),
                       fmt::format("remove driver '{}' from node '{}'", driver, node_name_));
  return OkStatus();
}

}  // namespace berth::node
