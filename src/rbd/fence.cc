#include "rbd/fence.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "rbd/blocklist.h"
#include "rbd/image.h"
#include "rbd/kernel_clients.h"
#include "rbd/records.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

// The clients of `node` that the kernel has and nobody recorded. None if there is no such image.
base::StatusOr<std::vector<ClientRecord>> FindUnrecorded(const Cluster& cluster,
                                                         const std::string& image,
                                                         const api::NodeName& node,
                                                         const std::vector<ClientRecord>& records) {
  const auto opened = Image::Open(cluster, image, {.node = node, .read_only = true});
  if (opened.status().code() == StatusCode::kNotFound) return std::vector<ClientRecord>();
  RETURN_IF_ERROR(opened);
  ASSIGN_OR_RETURN(const auto lockers, ListLockers(cluster, (*opened)->id()));
  ASSIGN_OR_RETURN(const auto watchers, (*opened)->ListWatchers());
  return FindKernelClients(records, Merge(lockers, watchers), node);
}

// What a fence is for: clients with their addresses, and intents.
struct Targets {
  std::vector<ClientRecord> clients;
  std::vector<ClientRecord> intents;

  std::vector<std::string> ListNames() const {
    std::vector<std::string> names;
    for (const ClientRecord& client : clients) names.push_back(client.address);
    for (const ClientRecord& intent : intents) names.push_back(IntentName(intent));
    return names;
  }
};

base::StatusOr<Targets> FindTargets(const Cluster& cluster, const std::string& image,
                                    const api::NodeName& target, const FenceOptions& options) {
  const auto is_wanted = [&options](const std::string& name) {
    return !options.only.has_value() ||
           std::find(options.only->begin(), options.only->end(), name) != options.only->end();
  };
  Targets targets;
  ASSIGN_OR_RETURN(const auto records, ListClients(cluster, image));
  bool has_newer_intent = false;
  for (const ClientRecord& record : records) {
    if (record.node != target || record.client_id == cluster.client_id()) continue;
    if (options.which == FenceOf::kServers &&
        (record.program != Program::kServe || record.read_only)) {
      continue;
    }
    if (!record.address.empty()) {
      if (is_wanted(record.address)) targets.clients.push_back(record);
    } else if (is_wanted(IntentName(record))) {
      targets.intents.push_back(record);
    } else {
      has_newer_intent = true;
    }
  }
  if (targets.intents.empty() && !has_newer_intent) return targets;
  ASSIGN_OR_RETURN(const auto found, FindUnrecorded(cluster, image, target, records));
  for (const ClientRecord& client : found) {
    // What the kernel mapped since the list was made belongs to an intent of the list, unless there
    // is a newer one.
    if (is_wanted(client.address) || !has_newer_intent) targets.clients.push_back(client);
  }
  return targets;
}

// Breaks the lock of the image if one of `fenced` has it.
base::Status BreakLocksOf(const Cluster& cluster, const std::string& image,
                          const std::vector<ClientRecord>& fenced) {
  ASSIGN_OR_RETURN(const auto id, FindImageId(cluster, image));
  if (!id.has_value()) return base::OkStatus();
  const auto lockers = ListLockers(cluster, *id);
  if (lockers.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(lockers);
  for (const Locker& locker : *lockers) {
    const bool is_fenced =
        std::any_of(fenced.begin(), fenced.end(), [&locker](const ClientRecord& client) {
          return client.IsClient(locker.client_id, locker.address);
        });
    if (is_fenced) RETURN_IF_ERROR(BreakLock(cluster, *id, locker));
  }
  return base::OkStatus();
}

}  // namespace

base::StatusOr<std::vector<Holder>> ListHolders(const Cluster& cluster, const std::string& image,
                                                const api::NodeName& node) {
  ASSIGN_OR_RETURN(const auto opened,
                   Image::Open(cluster, image, {.node = node, .read_only = true}));
  ASSIGN_OR_RETURN(const auto lockers, ListLockers(cluster, opened->id()));
  ASSIGN_OR_RETURN(const auto watchers, opened->ListWatchers());
  ASSIGN_OR_RETURN(const auto clients, ListClients(cluster, image));
  std::map<uint64_t, Holder> holders;
  for (const Locker& locker : lockers) {
    holders[locker.client_id] = {.address = locker.address};
  }
  for (const Watcher& watcher : watchers) {
    Holder& holder = holders[watcher.client_id];
    if (holder.address.empty()) holder.address = watcher.address;
    holder.alive = true;
  }
  for (auto& [id, holder] : holders) {
    holder.node = FindNodeOf(clients, {.client_id = id, .address = holder.address});
  }
  for (const ClientRecord& client : clients) {
    const auto found = std::find_if(holders.begin(), holders.end(), [&client](const auto& holder) {
      return client.IsClient(holder.first, holder.second.address);
    });
    if (found == holders.end()) continue;
    if (client.read_only || client.program == Program::kCall) {
      holders.erase(found);
    } else {
      found->second.node = client.node;
    }
  }
  holders.erase(cluster.client_id());
  std::vector<Holder> list;
  for (auto& [id, holder] : holders) list.push_back(std::move(holder));
  return list;
}

base::StatusOr<std::vector<std::string>> ListFenceTargets(const Cluster& cluster,
                                                          const std::string& image,
                                                          const api::NodeName& target) {
  ASSIGN_OR_RETURN(const Targets targets, FindTargets(cluster, image, target, {}));
  return targets.ListNames();
}

base::StatusOr<std::vector<std::string>> FenceNode(const Cluster& cluster, const std::string& image,
                                                   const api::NodeName& target,
                                                   const FenceOptions& options) {
  ASSIGN_OR_RETURN(const Targets targets, FindTargets(cluster, image, target, options));
  const std::vector<ClientRecord>& clients = targets.clients;
  for (const ClientRecord& client : clients) {
    RETURN_IF_ERROR(
        WriteFenced(cluster, {.node = target, .address = client.address, .image = image}));
    RETURN_IF_ERROR(AddToBlocklist(cluster, client.address));
    LOG_INFO("image {}: client {} of node {} is on the blocklist", Quote(image),
             Quote(client.address), target);
  }
  if (!clients.empty()) {
    RETURN_IF_ERROR(WaitForBlocklist(cluster));
    RETURN_IF_ERROR(BreakLocksOf(cluster, image, clients));
    RETURN_IF_ERROR(RemoveClients(cluster, image, clients));
  }
  RETURN_IF_ERROR(RemoveClients(cluster, image, targets.intents));
  ASSIGN_OR_RETURN(const auto fenced, ListFenced(cluster, target));
  std::vector<std::string> addresses;
  for (const FencedRecord& record : fenced) {
    if (record.image == image) addresses.push_back(record.address);
  }
  return addresses;
}

base::Status UnfenceNode(const Cluster& cluster, const api::NodeName& target,
                         const std::vector<std::string>& addresses) {
  const std::set<std::string> wanted(addresses.begin(), addresses.end());
  ASSIGN_OR_RETURN(const auto fenced, ListFenced(cluster, target));
  for (const FencedRecord& record : fenced) {
    if (!wanted.empty() && !wanted.contains(record.address)) continue;
    RETURN_IF_ERROR(RemoveFromBlocklist(cluster, record.address));
    RETURN_IF_ERROR(RemoveFenced(cluster, record));
    LOG_INFO("{} of node {} is off the blocklist", Quote(record.address), target);
  }
  return base::OkStatus();
}

base::StatusOr<std::map<std::string, std::vector<std::string>>> ListFencedNodes(
    const Cluster& cluster) {
  ASSIGN_OR_RETURN(const auto fenced, ListFenced(cluster, {}));
  std::map<std::string, std::vector<std::string>> nodes;
  for (const FencedRecord& record : fenced) nodes[record.node.text()].push_back(record.address);
  return nodes;
}

}  // namespace berth::rbd
