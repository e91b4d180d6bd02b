#include "rbd/kernel_clients.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "rbd/lock.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr char kIntentPrefix[] = "intent/";

// "10.0.0.5" of "10.0.0.5:0/3712435".
std::string HostOf(const std::string& address) {
  const std::string host = address.substr(0, address.find('/'));
  return host.substr(0, host.rfind(':'));
}

bool IsIntent(const ClientRecord& record) {
  return record.program == Program::kKernel && record.address.empty();
}

bool IsRecorded(const std::vector<ClientRecord>& records, const Seen& client) {
  return std::any_of(records.begin(), records.end(), [&client](const ClientRecord& record) {
    return record.IsClient(client.client_id, client.address);
  });
}

// The nodes that have an intent and the host of this client.
std::set<api::NodeName> NodesAt(const std::vector<ClientRecord>& records, const std::string& host) {
  std::set<api::NodeName> nodes;
  for (const ClientRecord& record : records) {
    if (IsIntent(record) && record.host == host) nodes.insert(record.node);
  }
  return nodes;
}

std::vector<ClientRecord> IntentsOf(const std::vector<ClientRecord>& records,
                                    const api::NodeName& node) {
  std::vector<ClientRecord> intents;
  for (const ClientRecord& record : records) {
    if (IsIntent(record) && record.node == node) intents.push_back(record);
  }
  return intents;
}

}  // namespace

std::vector<Seen> Merge(const std::vector<Locker>& lockers, const std::vector<Watcher>& watchers) {
  std::map<uint64_t, Seen> clients;
  for (const Watcher& watcher : watchers) {
    clients[watcher.client_id] = {.client_id = watcher.client_id, .address = watcher.address};
  }
  for (const Locker& locker : lockers) {
    clients[locker.client_id] = {
        .client_id = locker.client_id, .address = locker.address, .locks = true};
  }
  std::vector<Seen> list;
  for (auto& [id, client] : clients) list.push_back(std::move(client));
  return list;
}

std::string IntentName(const ClientRecord& intent) {
  return kIntentPrefix + std::to_string(intent.client_id);
}

base::StatusOr<std::string> NoteMapIntent(const Cluster& cluster, const std::string& image,
                                          const api::NodeName& node) {
  ASSIGN_OR_RETURN(const auto opened,
                   Image::Open(cluster, image, {.node = node, .read_only = true}));
  RETURN_IF_ERROR(EnsureUnlocked(*opened));
  ClientRecord intent{.client_id = cluster.client_id(),
                      .node = node,
                      .program = Program::kKernel,
                      .host = HostOf(cluster.address())};
  // The record of this call as a client of the image has the same key, so it is replaced, and must
  // not be removed when the image is closed.
  opened->KeepRecord();
  RETURN_IF_ERROR(WriteClient(cluster, image, intent));
  return IntentName(intent);
}

base::Status NoteKernelClient(const Cluster& cluster, const std::string& image,
                              const api::NodeName& node, const std::string& address) {
  const ClientRecord client{.address = address, .node = node, .program = Program::kKernel};
  ASSIGN_OR_RETURN(const auto records, ListClients(cluster, image));
  const bool noted = std::any_of(records.begin(), records.end(), [&](const ClientRecord& record) {
    return record.client_id == 0 && record.address == address && record.node == node;
  });
  if (noted) return base::OkStatus();
  const auto intents = IntentsOf(records, node);
  const base::Status lost =
      Error(StatusCode::kFailedPrecondition,
            "image {} is not to be used by {}: node {} was fenced while it mapped the image, or "
            "noted no intent before",
            Quote(image), Quote(address), node);
  if (intents.empty()) return lost;
  const base::Status replaced = ReplaceClients(cluster, image, intents, client);
  return replaced.code() == StatusCode::kAborted ? lost : replaced;
}

base::Status ForgetKernelClient(const Cluster& cluster, const std::string& image,
                                const api::NodeName& node, const std::string& address) {
  ASSIGN_OR_RETURN(auto records, ListClients(cluster, image));
  std::erase_if(records, [&](const ClientRecord& record) {
    return record.program != Program::kKernel || record.node != node ||
           (IsIntent(record) ? IntentName(record) : record.address) != address;
  });
  return RemoveClients(cluster, image, records);
}

api::NodeName FindNodeOf(const std::vector<ClientRecord>& records, const Seen& client) {
  const auto nodes = NodesAt(records, HostOf(client.address));
  return nodes.size() == 1 ? *nodes.begin() : api::NodeName();
}

base::StatusOr<std::vector<ClientRecord>> FindKernelClients(
    const std::vector<ClientRecord>& records, const std::vector<Seen>& seen,
    const api::NodeName& node) {
  std::vector<ClientRecord> found;
  if (IntentsOf(records, node).empty()) return found;
  for (const Seen& client : seen) {
    if (IsRecorded(records, client)) continue;
    const auto nodes = NodesAt(records, HostOf(client.address));
    if (nodes.contains(node) && nodes.size() == 1) {
      found.push_back({.client_id = client.client_id,
                       .address = client.address,
                       .node = node,
                       .program = Program::kKernel});
    } else if (nodes.contains(node) || (nodes.empty() && client.locks)) {
      return Error(StatusCode::kFailedPrecondition,
                   "client {} uses the image, and it cannot be told whether it is the kernel of "
                   "node {}, which was about to map the image when it was last heard of: if it is, "
                   "put the client on the blocklist (`ceph osd blocklist add`) and break its lock "
                   "(`rbd lock rm`)",
                   Quote(client.address), node);
    }
  }
  return found;
}

}  // namespace berth::rbd
