// Shares a server's seats (open connections, or streams) and the memory for requests among its
// clients, so that nobody can take what others need.
//
//   owners     root and the server's own user, known by the UNIX socket
//   verified   clients with a valid certificate or token
//   strangers  all others. A client of the TCP port is a stranger until it has shown who it is.
//
// Strangers have a small number of seats, and some seats are kept for owners; the rest is for
// verified clients. No address, and no user of this machine, holds more than a part of the
// strangers' seats, and no user more than a part of the verified ones. A client that comes when its
// seats are taken gets that of another:
//
//   comes      takes the seat of the longest silent ...
//   stranger   stranger: of the same address if that has too many, or has two and only those are
//              left that are kept for addresses with few
//   verified   verified client that waits between requests: of the same user if that has too many
//   owner      stranger; else verified client or owner that waits between requests
//
// A stranger is silent while the server waits for it: for its handshake, its request, or its
// reading of an answer. The time counts from the last thing that it completed, so that single bytes
// don't renew it. Nobody loses the seat while the server works for him. Not thread-safe; pure.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace berth::http {

enum class ClientClass { kOwner, kVerified, kStranger };

// In bytes. Verified clients of one user, and strangers of one address, get at most half of their
// budget.
struct MemoryBudgets {
  size_t owners = 64 << 20;
  size_t verified = 64 << 20;
  size_t strangers = 8 << 20;
};

struct SeatLimits {
  size_t total = 20'000;         // fewer if the process may open fewer descriptors
  size_t owner_reserve = 2'000;  // of them, for owners only
  size_t max_strangers = 2'000;
  size_t kept_for_few = 0;  // of max_strangers, for addresses that have less than two
  size_t max_per_address = 500;
  size_t max_per_user = 8'000;
  MemoryBudgets memory = {};
  // How long an owner or a verified client has waited between requests before it may lose its seat.
  std::chrono::milliseconds spare{5'000};

  // Returns limits in the same proportions with at most `most` seats.
  SeatLimits FitTo(size_t most) const;
};

class SeatTable;

// A place in a SeatTable. Its owner adds and removes it; it must not move or end in between.
class Seat {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Stage {
    kWaiting,  // nothing of the client's next request has arrived
    kPartial,  // the client has begun something that it has to complete
    kWorking,  // the server has to act
  };

  ClientClass client_class() const { return class_; }
  // The key of SeatTable::OfferSeat; empty if the seat is not in the table.
  const std::string& key() const;

 protected:
  Seat() = default;
  ~Seat() = default;

 private:
  friend class SeatTable;
  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  struct Group;
  using GroupKey = std::pair<ClientClass, std::string>;

  ClientClass class_ = ClientClass::kStranger;
  Stage stage_ = Stage::kWorking;
  Time since_{};                                       // the begin of a silence
  size_t memory_ = 0;                                  // bytes of the class's budget
  std::pair<const GroupKey, Group>* group_ = nullptr;  // null: not in the table
  Hook class_hook_;
  Hook group_hook_;
};

// The seats of one address, user or uid.
struct Seat::Group {
  using List =
      boost::intrusive::list<Seat, boost::intrusive::member_hook<Seat, Hook, &Seat::group_hook_>,
                             boost::intrusive::constant_time_size<false>>;
  size_t seats = 0;
  size_t memory = 0;
  List silent;  // the longest silent first
};

class SeatTable {
 public:
  using Time = Seat::Time;
  using Stage = Seat::Stage;

  explicit SeatTable(const SeatLimits& limits) : limits_(limits) {}
  SeatTable(const SeatTable&) = delete;
  SeatTable& operator=(const SeatTable&) = delete;

  struct Offer {
    bool granted = false;
    Seat* displaced = nullptr;  // must be removed before the seat is taken; null: there is room
  };
  // Whether a new client may have a seat. `key` is the uid of an owner, the name of a verified
  // user, or the address or local user of a stranger.
  Offer OfferSeat(ClientClass client_class, const std::string& key, Time now);
  // Adds a seat that OfferSeat has granted.
  void AddSeat(Seat& seat, ClientClass client_class, const std::string& key, Stage stage, Time now);
  void RemoveSeat(Seat& seat);

  // Whether a stranger may become the verified client `user`. Then Promote makes him one.
  Offer OfferPromotion(const std::string& user, Time now);
  void Promote(Seat& seat, const std::string& user, Time now);

  // Notes at what the client of the seat is. A silence that goes on keeps its begin.
  void SetStage(Seat& seat, Stage stage, Time now);

  // Sets the bytes that the seat's request takes of its class's budget. Returns false, and changes
  // nothing, if there are fewer left; a smaller number is always granted.
  bool SetMemory(Seat& seat, size_t bytes);
  // Finds the silent stranger whose seat has to be removed, so that `seat`, a stranger's, can have
  // `bytes`; null: nobody's would help.
  Seat* FindMemoryHolder(const Seat& seat, size_t bytes);

  size_t size() const { return total_; }
  size_t size(ClientClass client_class) const { return Of(client_class).seats; }
  size_t CountSeats(ClientClass client_class, const std::string& key) const;
  size_t memory() const;

 private:
  struct Class {
    using List =
        boost::intrusive::list<Seat,
                               boost::intrusive::member_hook<Seat, Seat::Hook, &Seat::class_hook_>,
                               boost::intrusive::constant_time_size<false>>;
    size_t seats = 0;
    size_t memory = 0;
    List silent;  // the longest silent first
  };

  Class& Of(ClientClass one) { return classes_[static_cast<size_t>(one)]; }
  const Class& Of(ClientClass one) const { return classes_[static_cast<size_t>(one)]; }
  size_t MaxVerified() const;
  size_t BudgetOf(ClientClass one) const;
  Seat::Group* FindGroup(ClientClass client_class, const std::string& key);
  // The first of `silent` if it has been silent for `spare`; null otherwise.
  Seat* FindSpare(auto& silent, Time now) const;
  static Offer MakeOffer(Seat* displaced) { return {displaced != nullptr, displaced}; }
  static bool IsSilent(const Seat& seat);
  // Adds a silent seat to the lists of its class and group.
  void ListSilent(Seat& seat);

  const SeatLimits limits_;
  std::map<Seat::GroupKey, Seat::Group> groups_;
  std::array<Class, 3> classes_;
  size_t total_ = 0;
};

}  // namespace berth::http
