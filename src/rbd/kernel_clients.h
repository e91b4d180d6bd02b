// Clients of the kernel's driver (krbd), which records nothing of itself. Whoever maps an image by
// the kernel records the client for it:
//
//   NoteMapIntent      before the map: the node, and its address in the cluster's network
//   NoteKernelClient   after the map: the client's address takes the place of the intent
//   ForgetKernelClient after the unmap, or after a map that failed
//
// A crash between the first two leaves a client that nobody recorded. It is found among those that
// lock or watch the image, by the address of its node, as long as there is the intent. A fence
// removes the intent, too, so that a map that ends only later cannot be noted, and is undone.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "rbd/cluster.h"
#include "rbd/image.h"
#include "rbd/records.h"

namespace berth::rbd {

// A client that locks or watches an image.
struct Seen {
  uint64_t client_id = 0;
  std::string address;
  bool locks = false;
};
// Of both lists, each client once.
std::vector<Seen> Merge(const std::vector<Locker>& lockers, const std::vector<Watcher>& watchers);

// "intent/4242": how an intent is named where the addresses of clients are.
std::string IntentName(const ClientRecord& intent);

// Records that `node` is about to map the image; returns the name of the intent.
// FAILED_PRECONDITION: another client has the lock; the kernel would break the lock of one that has
// been silent for half a minute. NOT_FOUND: there is no such image.
base::StatusOr<std::string> NoteMapIntent(const Cluster& cluster, const std::string& image,
                                          const api::NodeName& node);
// Puts the client of the kernel at `address` in the place of the node's intents; OK if it is
// recorded already. FAILED_PRECONDITION: the node has no intent, because a fence took it away: the
// image is to be unmapped, and nothing to be written.
base::Status NoteKernelClient(const Cluster& cluster, const std::string& image,
                              const api::NodeName& node, const std::string& address);
// Removes the record of a client of the node, or of the intent that `address` names.
base::Status ForgetKernelClient(const Cluster& cluster, const std::string& image,
                                const api::NodeName& node, const std::string& address);

// The node whose kernel the client, which nobody recorded, may be: one that has an intent and the
// client's address. "": no node, or more than one.
api::NodeName FindNodeOf(const std::vector<ClientRecord>& records, const Seen& client);

// The clients of the kernel that `node` has and nobody recorded. FAILED_PRECONDITION: a client may
// be one, and this cannot be told.
base::StatusOr<std::vector<ClientRecord>> FindKernelClients(
    const std::vector<ClientRecord>& records, const std::vector<Seen>& seen,
    const api::NodeName& node);

}  // namespace berth::rbd
