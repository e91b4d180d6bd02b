// A session that writes to a LUN under a persistent reservation, kept alive by a thread.
//
//   log in, with the same ISID ◀───────────────────────────┐
//     │ (no answer: again later)                           │
//     ▼                                                    │ lost connection, late answer
//   same LUN, and does the registration stand? ──yes──▶ serving
//     │ no                                                 │ RESERVATION CONFLICT, or no
//     ▼                                                    │ registration after an attention
//   fenced: every request fails, for good ◀────────────────┘
//
// A fenced channel never registers again. Only the end of its process and a new start do, which the
// node's agent decides. A command whose session was lost is sent again on the next one, but only
// after the target has confirmed the registration, so a fenced node sends it in vain. To send a
// write twice is harmless, because the one who waits for it sends no other to the same blocks, and
// the target ends all commands of the old session before it begins the new one.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "iscsi/cache_watch.h"
#include "iscsi/logical_unit.h"
#include "iscsi/reservations.h"
#include "iscsi/session.h"
#include "iscsi/settings.h"

namespace berth::iscsi {

struct ChannelOptions {
  Settings settings;
  uint16_t lun = 0;
  std::string identity;  // that the LUN must have
  bool shared = false;   // with other nodes that write, or with readers
  std::string ticket;    // Reservations::Acquire
  // Called at the end if the reservation could not be given back, so that the LUN stays this
  // node's until somebody fences it.
  std::function<void(const base::Status&)> on_release_failure;
};

// Makes sure that the target refuses writes of other sessions than the one that has the
// reservation, by commands that change nothing even if it runs them. Returns whether it refuses
// WRITE SAME, too. Where it does not, nobody may send that command: one that came late would
// overwrite the next owner's data. UNIMPLEMENTED: the target does not refuse writes.
base::StatusOr<bool> FencesWriteSame(const LoginOptions& login, uint16_t lun,
                                     const Capacity& capacity, Deadline deadline);

class Channel {
 public:
  // The time within which each request ends.
  static constexpr std::chrono::seconds kRequestTime{30};
  // The time after which a portal that does not answer is left for another one.
  static constexpr std::chrono::seconds kPortalTime{10};

  // Logs in and takes the reservation, and makes sure that the target refuses writes of other
  // sessions. The failures are those of Session::LogIn, Inspect and Reservations::Acquire.
  // DATA_LOSS: the LUN has another identity. FAILED_PRECONDITION: another node holds the LUN, or
  // the target does not enforce reservations.
  static base::StatusOr<std::unique_ptr<Channel>> Open(const ChannelOptions& options,
                                                       Deadline deadline);
  // Hands the reservation to the guard and logs out, if the target answers. No request may wait.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Runs a command and waits for its end. kConflict: this channel is fenced. kOther for SYNCHRONIZE
  // CACHE: the target has lost writes that it had answered.
  Answer Run(const Command& command);

  const UnitInfo& info() const { return info_; }
  // Whether the target refuses WRITE SAME of other sessions, too. Some do not; one that is fenced
  // could then still write zeroes, so that such targets must not be sent this command at all.
  bool fences_write_same() const { return fences_write_same_; }
  // Whether the target has a write cache. nullopt: it does not tell.
  std::optional<bool> write_cache() const { return write_cache_; }

 private:
  struct Request;
  explicit Channel(const ChannelOptions& options)
      : options_(options), login_(options.settings.login) {}

  base::Status Begin(Deadline deadline);
  base::Status BeginOn(Deadline deadline);
  base::Status CheckEnforced(Deadline deadline);
  void Serve(const std::stop_token& stop);
  void TakeRequests();
  void SubmitWaiting(Deadline now);
  void HandleAnswer(Request* request, const Answer& answer);
  void HandleAttention(uint16_t code);
  void WatchCache(const Request& request, Answer& answer);
  void RetryRequest(Request* request, std::chrono::milliseconds pause);
  void CompleteRequest(Request* request, const Answer& answer);
  void EndLateRequests(Deadline now);
  void DropSession(std::string_view why);
  void Connect(Deadline now);
  base::Status Verify(Deadline deadline);
  void NotePortal();
  void MoveToNextPortal(std::string_view why);
  void NoteFenced(std::string_view why);
  Deadline NextEvent(Deadline now) const;
  void End();

  const ChannelOptions options_;
  LoginOptions login_;  // with the name of the sessions (initiator_name.h)
  UnitInfo info_;
  bool fences_write_same_ = false;
  std::optional<bool> write_cache_;
  base::UniqueFd wake_;
  base::Mutex mutex_;
  std::deque<Request*> new_ ABSL_GUARDED_BY(mutex_);

  // Used by the thread alone once it runs.
  std::unique_ptr<Session> session_;
  Registered own_;
  std::optional<CacheWatch> cache_;
  std::list<Request*> waiting_;
  std::list<Request*> in_flight_;
  bool fenced_ = false;
  bool verify_ = false;   // before the next command is sent
  bool renew_ = false;    // the session, because the target dropped commands
  bool greeted_ = false;  // whether a command of this session had an answer that is no attention
  size_t portal_ = 0;
  int failures_ = 0;  // logins that failed since the last one that did not
  std::set<base::StatusCode> logged_failures_;  // the kinds of them, each logged once
  Deadline next_login_{};

  std::jthread thread_;
};

// The logical unit of a channel, for functions that read from it.
class ChannelUnit : public LogicalUnit {
 public:
  explicit ChannelUnit(Channel& channel) : channel_(channel) {}
  Answer Run(const Command& command) override { return channel_.Run(command); }
  base::Status Reset() override { return base::Status(base::StatusCode::kUnimplemented, ""); }

 private:
  Channel& channel_;
};

}  // namespace berth::iscsi
