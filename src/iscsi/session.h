// One iSCSI session with one connection, by libiscsi.
//
// libiscsi connects anew by itself if it may, with another ISID. Such a session is another nexus to
// the target, without the registration, and libiscsi would send the commands again on it. So that
// is switched off: a session that lost its connection is lost, and its owner logs in anew with the
// same ISID (RFC 7143, 6.3.5: the target then first ends all commands of the old session).
//
// Not thread-safe. No call blocks past its deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "iscsi/command.h"

struct iscsi_context;
struct scsi_task;

namespace berth::iscsi {

using Deadline = std::chrono::steady_clock::time_point;

struct LoginOptions {
  std::vector<std::string> portals;  // "HOST:PORT", "[IPv6]:PORT"; the port may be left out
  std::string target;                // the target's iSCSI name
  std::string initiator;             // this side's iSCSI name
  std::string chap_user;             // empty: no CHAP
  std::string chap_password;
  uint64_t isid = 0;  // the lower 40 bits identify the session among those of this initiator
};

// How a command ended.
struct Answer {
  enum class Outcome {
    kGood,
    kCheckCondition,
    kConflict,  // RESERVATION CONFLICT
    kBusy,      // BUSY or TASK SET FULL: send it again later
    kAborted,   // TASK ABORTED, by another session
    kLost,      // no answer, because the session was lost; the target may have run the command
    kOther,     // a status that fits no disk
  };
  Outcome outcome = Outcome::kLost;
  uint8_t sense_key = 0;    // with kCheckCondition
  uint16_t sense_code = 0;  // additional sense code and qualifier
  size_t bytes = 0;         // that were read, with kGood
  bool good() const { return outcome == Outcome::kGood; }
};

inline constexpr uint8_t kSenseNotReady = 0x2;
inline constexpr uint8_t kSenseIllegalRequest = 0x5;
inline constexpr uint8_t kSenseUnitAttention = 0x6;
inline constexpr uint8_t kSenseDataProtect = 0x7;
inline constexpr uint8_t kSenseCommandAborted = 0xb;

// "CHECK CONDITION 5/2400", for messages.
std::string DescribeAnswer(const Answer& answer);

class Session {
 public:
  using Done = std::function<void(const Answer&)>;

  // Logs in at that portal. UNAVAILABLE: it does not answer, or the connection broke.
  // DEADLINE_EXCEEDED. UNAUTHENTICATED: the target refuses the CHAP user or secret.
  // PERMISSION_DENIED: it does not admit this initiator. NOT_FOUND: the portal has no such target.
  // FAILED_PRECONDITION: another refusal, in the target's words.
  static base::StatusOr<std::unique_ptr<Session>> LogInAt(const LoginOptions& options,
                                                          const std::string& portal,
                                                          Deadline deadline);
  // Logs in at the first portal that admits it, each with its part of the time. Begins with the
  // portal of index `first`. Fails with the answer that tells most.
  static base::StatusOr<std::unique_ptr<Session>> LogIn(const LoginOptions& options,
                                                        Deadline deadline, size_t first = 0);
  // Closes the connection. The outcomes of commands that wait are kLost, and their `done` runs.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Sends the command. `done` runs within Service, or with kLost within the destructor, and borrows
  // nothing of the session. The command's memory must stay until then.
  void Submit(uint16_t lun, const Command& command, Done done);
  // Waits for events at most until `deadline`, and handles them. `wake`, if it is a descriptor,
  // ends the wait when it becomes readable. UNAVAILABLE: the session is lost.
  base::Status Service(Deadline deadline, int wake = -1);
  // Sends a command and waits for its end. A session on which a command was late is lost.
  Answer Run(uint16_t lun, const Command& command, Deadline deadline);
  // Aborts all commands of all sessions to the logical unit, and returns after their end. Keeps
  // reservations. UNIMPLEMENTED: the target cannot do that.
  base::Status ResetLun(uint16_t lun, Deadline deadline);
  // Tells the target that the session ends; at most until `deadline`.
  void LogOut(Deadline deadline);

  bool lost() const { return lost_; }
  const std::string& portal() const { return portal_; }

 private:
  struct Task;
  struct Call;  // of a login, logout or task management

  Session() = default;
  // `address` is one of the portal's.
  static base::StatusOr<std::unique_ptr<Session>> LogInAtAddress(const LoginOptions& options,
                                                                 const std::string& portal,
                                                                 const std::string& address,
                                                                 Deadline deadline);
  static void OnCall(iscsi_context*, int status, void* data, void* call);
  static void OnTask(iscsi_context*, int status, void* data, void* task);
  base::Status AwaitCall(const std::shared_ptr<Call>& call, Deadline deadline);
  base::Status LoginFailure(const LoginOptions& options) const;

  iscsi_context* context_ = nullptr;
  std::string portal_;
  std::string failure_;  // why the session is lost
  std::list<Task> tasks_;
  // libiscsi keeps a pointer to a call that it has not answered, so calls live as long as it.
  std::vector<std::shared_ptr<Call>> calls_;
  bool lost_ = false;
};

}  // namespace berth::iscsi
