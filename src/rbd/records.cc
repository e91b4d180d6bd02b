#include "rbd/records.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/log.h"
#include "rbd/omap.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;

constexpr std::array<std::pair<ImageState, const char*>, 3> kStates{{
    {ImageState::kMaking, "making"},
    {ImageState::kMade, "made"},
    {ImageState::kDeleting, "deleting"},
}};

constexpr std::array<std::pair<Program, const char*>, 3> kPrograms{{
    {Program::kCall, "call"},
    {Program::kServe, "serve"},
    {Program::kKernel, "kernel"},
}};

std::string ClientPrefix(const std::string& image) { return image + "/"; }

std::string ClientKey(const std::string& image, const ClientRecord& record) {
  return ClientPrefix(image) +
         (record.client_id != 0 ? std::to_string(record.client_id) : record.address);
}

// An address has a slash of its own; the name of a node has none.
std::string FencedKey(const FencedRecord& record) {
  return record.node.text() + "/" + record.address;
}

std::string ClientText(const ClientRecord& record) {
  Json json{
      {"address", record.address}, {"node", record.node.text()}, {"readOnly", record.read_only}};
  for (const auto& [value, name] : kPrograms) {
    if (record.program == value) json["program"] = name;
  }
  if (!record.host.empty()) json["host"] = record.host;
  return base::json::Dump(json);
}

// A record of a client that cannot be read is left out: it then fences nothing.
std::optional<ClientRecord> ParseClient(const std::string& key, const std::string& text) {
  const auto json = base::json::Parse(text);
  if (!json.ok()) return std::nullopt;
  ClientRecord record{.address = base::json::String(*json, {"address"}),
                      .node = api::NodeName(base::json::String(*json, {"node"})),
                      .read_only = base::json::Bool(*json, {"readOnly"}),
                      .host = base::json::String(*json, {"host"})};
  const char* end = key.data() + key.size();
  const auto parsed = std::from_chars(key.data(), end, record.client_id);
  if (parsed.ec != std::errc() || parsed.ptr != end) record.client_id = 0;
  if (record.client_id == 0 && record.address != key) return std::nullopt;
  const std::string program = base::json::String(*json, {"program"});
  for (const auto& [value, name] : kPrograms) {
    if (program == name) record.program = value;
  }
  return record;
}

}  // namespace

Json ImageRecord::ToJson() const {
  Json json{{"size", size_bytes}, {"made", made_bytes}};
  for (const auto& [value, text] : kStates) {
    if (value == state) json["state"] = text;
  }
  if (!id.empty()) json["id"] = id;
  if (!made_as.empty()) json["madeAs"] = made_as;
  if (!source.empty()) json["source"] = source;
  if (!snapshot_of.empty()) json["snapshotOf"] = snapshot_of;
  return json;
}

base::StatusOr<ImageRecord> ImageRecord::Parse(const std::string& text) {
  const auto json = base::json::Parse(text);
  if (!json.ok() || !json->is_object()) {
    return Error(StatusCode::kDataLoss, "the record is not a JSON object");
  }
  ImageRecord record;
  const std::string state = base::json::String(*json, {"state"});
  bool known = false;
  for (const auto& [value, name] : kStates) {
    if (state != name) continue;
    record.state = value;
    known = true;
  }
  record.id = base::json::String(*json, {"id"});
  record.made_as = base::json::String(*json, {"madeAs"});
  record.size_bytes = base::json::Int(*json, {"size"});
  record.made_bytes = base::json::Int(*json, {"made"});
  record.source = base::json::String(*json, {"source"});
  record.snapshot_of = base::json::String(*json, {"snapshotOf"});
  if (!known || record.size_bytes < 0 ||
      (record.state != ImageState::kMaking && record.id.empty())) {
    return Error(StatusCode::kDataLoss, "the record has no state, size or id that fit together");
  }
  return record;
}

base::StatusOr<std::optional<ImageRecord>> ReadImageRecord(const Cluster& cluster,
                                                           const std::string& name) {
  ASSIGN_OR_RETURN(const auto text, ReadOmap(cluster, kImageRecords, name));
  if (!text.has_value()) return std::optional<ImageRecord>();
  auto record = ImageRecord::Parse(*text);
  RETURN_IF_ERROR_WITH(record, fmt::format("read the record of image {}", Quote(name)));
  return std::optional(*std::move(record));
}

base::StatusOr<std::map<std::string, ImageRecord>> ListImageRecords(const Cluster& cluster) {
  ASSIGN_OR_RETURN(const OmapValues values, ListOmap(cluster, kImageRecords));
  std::map<std::string, ImageRecord> records;
  for (const auto& [name, text] : values) {
    auto record = ImageRecord::Parse(text);
    RETURN_IF_ERROR_WITH(record, fmt::format("read the record of image {}", Quote(name)));
    records.emplace(name, *std::move(record));
  }
  return records;
}

base::Status ReplaceImageRecord(const Cluster& cluster, const std::string& name,
                                const std::optional<ImageRecord>& before,
                                const std::optional<ImageRecord>& after) {
  OmapReplacement change{.key = name};
  if (before.has_value()) change.before = base::json::Dump(before->ToJson());
  if (after.has_value()) {
    change.set[name] = base::json::Dump(after->ToJson());
  } else {
    change.remove.push_back(name);
  }
  return ReplaceOmap(cluster, kImageRecords, change);
}

base::StatusOr<std::vector<ClientRecord>> ListClients(const Cluster& cluster,
                                                      const std::string& image) {
  const std::string prefix = ClientPrefix(image);
  ASSIGN_OR_RETURN(const OmapValues values, ListOmap(cluster, kClientRecords, prefix));
  std::vector<ClientRecord> clients;
  for (const auto& [key, text] : values) {
    if (auto record = ParseClient(key.substr(prefix.size()), text)) {
      clients.push_back(*std::move(record));
    }
  }
  return clients;
}

base::Status WriteClient(const Cluster& cluster, const std::string& image,
                         const ClientRecord& record) {
  return SetOmap(cluster, kClientRecords, ClientKey(image, record), ClientText(record));
}

base::Status ReplaceClients(const Cluster& cluster, const std::string& image,
                            const std::vector<ClientRecord>& before, const ClientRecord& after) {
  OmapReplacement change{.key = ClientKey(image, before.front()),
                         .before = ClientText(before.front())};
  for (const ClientRecord& record : before) change.remove.push_back(ClientKey(image, record));
  change.set[ClientKey(image, after)] = ClientText(after);
  return ReplaceOmap(cluster, kClientRecords, change);
}

base::Status RemoveClients(const Cluster& cluster, const std::string& image,
                           const std::vector<ClientRecord>& clients) {
  std::vector<std::string> keys;
  for (const ClientRecord& client : clients) keys.push_back(ClientKey(image, client));
  return RemoveOmap(cluster, kClientRecords, keys);
}

base::StatusOr<std::vector<FencedRecord>> ListFenced(const Cluster& cluster,
                                                     const api::NodeName& node) {
  ASSIGN_OR_RETURN(const OmapValues values,
                   ListOmap(cluster, kFencedRecords, node.empty() ? "" : node.text() + "/"));
  std::vector<FencedRecord> fenced;
  for (const auto& [key, text] : values) {
    const size_t slash = key.find('/');
    if (slash == std::string::npos) continue;
    FencedRecord record{.node = api::NodeName(key.substr(0, slash)),
                        .address = key.substr(slash + 1)};
    if (const auto json = base::json::Parse(text); json.ok()) {
      record.image = base::json::String(*json, {"image"});
    }
    fenced.push_back(std::move(record));
  }
  return fenced;
}

base::Status WriteFenced(const Cluster& cluster, const FencedRecord& record) {
  return SetOmap(cluster, kFencedRecords, FencedKey(record),
                 base::json::Dump(Json{{"image", record.image}}));
}

base::Status RemoveFenced(const Cluster& cluster, const FencedRecord& record) {
  return RemoveOmap(cluster, kFencedRecords, {FencedKey(record)});
}

}  // namespace berth::rbd
