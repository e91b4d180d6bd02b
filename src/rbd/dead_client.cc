#include "rbd/dead_client.h"

#include <algorithm>

#include "base/log.h"
#include "rbd/blocklist.h"
#include "rbd/kernel_clients.h"

namespace berth::rbd {
namespace {

using base::Quote;

class UsersOfImage : public ImageUsers {
 public:
  explicit UsersOfImage(const Image& image) : image_(image), cluster_(image.cluster()) {}

  uint64_t own_id() const override { return cluster_.client_id(); }
  base::StatusOr<std::vector<Locker>> ListLockers() override {
    return rbd::ListLockers(cluster_, image_.id());
  }
  base::StatusOr<std::vector<Watcher>> ListWatchers() override { return image_.ListWatchers(); }
  base::StatusOr<std::vector<ClientRecord>> ListClients() override {
    return rbd::ListClients(cluster_, image_.name());
  }
  base::StatusOr<std::set<uint64_t>> ListAnswering() override {
    return image_.ListAnswering(kAnswerTime);
  }
  base::Status Fence(const std::string& address) override {
    RETURN_IF_ERROR(AddToBlocklist(cluster_, address));
    // The next request of this client carries the number of the map, and an OSD drops the
    // watches of the clients that a map bars before it does anything else by that map.
    return WaitForBlocklist(cluster_);
  }
  base::Status BreakLock(const Locker& locker) override {
    return rbd::BreakLock(cluster_, image_.id(), locker);
  }
  base::Status RemoveClients(const std::vector<ClientRecord>& clients) override {
    return rbd::RemoveClients(cluster_, image_.name(), clients);
  }

 private:
  const Image& image_;
  const Cluster& cluster_;
};

bool IsCall(const std::vector<ClientRecord>& records, const Seen& client, Unrecorded unrecorded) {
  bool is_recorded = false;
  for (const ClientRecord& record : records) {
    // An intent may be for any client that nobody recorded.
    const bool is_intent = record.program == Program::kKernel && record.address.empty();
    const bool is_client = record.IsClient(client.client_id, client.address);
    if (record.program != Program::kCall && (is_client || record.address == client.address)) {
      return false;
    }
    if (is_intent && unrecorded == Unrecorded::kCall) unrecorded = Unrecorded::kForeign;
    is_recorded = is_recorded || is_client;
  }
  return is_recorded || unrecorded == Unrecorded::kCall;
}

struct Uses {
  std::vector<Locker> lockers;
  std::vector<Watcher> watchers;

  bool IsWatching(const Seen& client) const {
    return std::ranges::any_of(watchers, [&client](const Watcher& watcher) {
      return watcher.client_id == client.client_id;
    });
  }
};

base::StatusOr<Uses> ListUses(ImageUsers& users) {
  Uses uses;
  // In this order, because a call that ends gives its lock back before its watch.
  ASSIGN_OR_RETURN(uses.lockers, users.ListLockers());
  ASSIGN_OR_RETURN(uses.watchers, users.ListWatchers());
  return uses;
}

// The calls among the users of the image.
base::StatusOr<std::vector<Seen>> FindCalls(ImageUsers& users, const Uses& uses,
                                            Unrecorded unrecorded) {
  std::vector<Seen> seen = Merge(uses.lockers, uses.watchers);
  std::erase_if(seen, [&users](const Seen& client) { return client.client_id == users.own_id(); });
  if (seen.empty()) return seen;
  ASSIGN_OR_RETURN(const auto records, users.ListClients());
  std::erase_if(seen, [&](const Seen& client) { return !IsCall(records, client, unrecorded); });
  return seen;
}

}  // namespace

base::Status EndDeadCalls(ImageUsers& users, Unrecorded unrecorded) {
  ASSIGN_OR_RETURN(const Uses before, ListUses(users));
  ASSIGN_OR_RETURN(const auto before_asking, FindCalls(users, before, unrecorded));
  if (before_asking.empty()) return base::OkStatus();
  std::set<uint64_t> answering;
  if (std::ranges::any_of(before_asking,
                          [&](const Seen& call) { return before.IsWatching(call); })) {
    ASSIGN_OR_RETURN(answering, users.ListAnswering());
  }
  // A call that ended in order meanwhile neither locks nor watches any more. One that came
  // meanwhile was not asked.
  ASSIGN_OR_RETURN(const Uses uses, ListUses(users));
  ASSIGN_OR_RETURN(auto dead, FindCalls(users, uses, unrecorded));
  std::erase_if(dead, [&](const Seen& call) {
    return answering.contains(call.client_id) ||
           std::ranges::none_of(before_asking, [&call](const Seen& asked) {
             return asked.client_id == call.client_id;
           });
  });
  for (const Seen& call : dead) {
    RETURN_IF_ERROR(users.Fence(call.address));
    for (const Locker& locker : uses.lockers) {
      if (locker.client_id == call.client_id) RETURN_IF_ERROR(users.BreakLock(locker));
    }
    RETURN_IF_ERROR(users.RemoveClients({{.client_id = call.client_id, .address = call.address}}));
    LOG_INFO("the call at {} died while it {} an image: it is on the blocklist, and out of the way",
             Quote(call.address), call.locks ? "had the lock of" : "watched");
  }
  return base::OkStatus();
}

base::Status EndDeadCalls(const Image& image, Unrecorded unrecorded) {
  UsersOfImage users(image);
  RETURN_IF_ERROR_WITH(EndDeadCalls(users, unrecorded),
                       fmt::format("free image {} from calls that died", Quote(image.name())));
  return base::OkStatus();
}

}  // namespace berth::rbd
