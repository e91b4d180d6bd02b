#include "iscsi/session.h"

#include <errno.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/log.h"
#include "iscsi/portal.h"

namespace berth::iscsi {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// How long data may stay without an answer of the peer's TCP, so that a dead connection ends.
constexpr int kTcpTimeoutMs = 10'000;
constexpr int kKeepaliveIdle = 10;  // seconds
constexpr int kKeepaliveInterval = 5;
constexpr int kKeepaliveCount = 3;

// Status classes and details of a login (RFC 7143, 11.13.5).
constexpr int kAuthenticationFailure = 0x0201;
constexpr int kAuthorizationFailure = 0x0202;
constexpr int kTargetNotFound = 0x0203;
constexpr int kTargetRemoved = 0x0204;

int PollTimeout(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1000));
}

// The login status in libiscsi's words "... Status: Target not found(515)".
int LoginStatus(std::string_view words) {
  const size_t open = words.rfind('(');
  if (words.find("Status: ") == std::string_view::npos || open == std::string_view::npos) return 0;
  int status = 0;
  std::from_chars(words.data() + open + 1, words.data() + words.size(), status);
  return status;
}

// How LUN numbers stand in a PDU: up to 255 as a peripheral device, above as a flat number.
int WireLun(uint16_t lun) { return lun < 256 ? lun : 0x4000 | lun; }

// Which of two failures tells more about the cause: an answer more than silence.
int Weight(const Status& failure) {
  switch (failure.code()) {
    case StatusCode::kUnauthenticated:
    case StatusCode::kPermissionDenied:
      return 3;
    case StatusCode::kUnavailable:
      return 1;
    case StatusCode::kDeadlineExceeded:
      return 0;
    default:
      return 2;
  }
}

Answer ReadAnswer(int status, const scsi_task* task, const Command& command) {
  Answer answer;
  using Outcome = Answer::Outcome;
  switch (status) {
    case SCSI_STATUS_GOOD:
    case SCSI_STATUS_CONDITION_MET: {
      const bool whole = task->residual_status == SCSI_RESIDUAL_NO_RESIDUAL;
      answer.outcome = whole || command.out.empty() ? Outcome::kGood : Outcome::kOther;
      const size_t wanted = command.in.size();
      const bool less = task->residual_status == SCSI_RESIDUAL_UNDERFLOW;
      answer.bytes = less ? wanted - std::min(wanted, task->residual) : wanted;
      return answer;
    }
    case SCSI_STATUS_CHECK_CONDITION:
      answer.outcome = Outcome::kCheckCondition;
      answer.sense_key = static_cast<uint8_t>(task->sense.key);
      answer.sense_code = static_cast<uint16_t>(task->sense.ascq);
      return answer;
    case SCSI_STATUS_RESERVATION_CONFLICT:
      answer.outcome = Outcome::kConflict;
      return answer;
    case SCSI_STATUS_BUSY:
    case SCSI_STATUS_TASK_SET_FULL:
      answer.outcome = Outcome::kBusy;
      return answer;
    case SCSI_STATUS_TASK_ABORTED:
      answer.outcome = Outcome::kAborted;
      return answer;
    case SCSI_STATUS_CANCELLED:
    case SCSI_STATUS_TIMEOUT:
    case SCSI_STATUS_ERROR:
      return answer;
    default:
      answer.outcome = Outcome::kOther;
      return answer;
  }
}

}  // namespace

struct Session::Task {
  Session* session;
  Command command;
  Done done;
  scsi_iovec out{};  // libiscsi keeps a pointer to it
  std::list<Task>::iterator place;
};

struct Session::Call {
  std::optional<int> status;
  uint32_t response = 0;  // of task management
};

std::string DescribeAnswer(const Answer& answer) {
  switch (answer.outcome) {
    case Answer::Outcome::kGood:
      return "GOOD";
    case Answer::Outcome::kCheckCondition:
      return fmt::format("CHECK CONDITION {:x}/{:04x}", answer.sense_key, answer.sense_code);
    case Answer::Outcome::kConflict:
      return "RESERVATION CONFLICT";
    case Answer::Outcome::kBusy:
      return "BUSY";
    case Answer::Outcome::kAborted:
      return "TASK ABORTED";
    case Answer::Outcome::kLost:
      return "no answer";
    case Answer::Outcome::kOther:
      break;
  }
  return "an unknown status";
}

void Session::OnCall(iscsi_context*, int status, void* data, void* private_data) {
  auto& call = *static_cast<Call*>(private_data);
  call.status = status;
  if (status == SCSI_STATUS_GOOD && data != nullptr) call.response = *static_cast<uint32_t*>(data);
}

void Session::OnTask(iscsi_context*, int status, void* data, void* private_data) {
  auto& task = *static_cast<Task*>(private_data);
  auto* scsi = static_cast<scsi_task*>(data);
  const Answer answer = ReadAnswer(status, scsi, task.command);
  if (answer.outcome == Answer::Outcome::kLost) task.session->lost_ = true;
  const Done done = std::move(task.done);
  task.session->tasks_.erase(task.place);  // `task` ends here
  if (scsi != nullptr) scsi_free_scsi_task(scsi);
  done(answer);
}

Status Session::LoginFailure(const LoginOptions& options) const {
  const std::string words = iscsi_get_error(context_);
  switch (LoginStatus(words)) {
    case kAuthenticationFailure:
      return Error(StatusCode::kUnauthenticated,
                   "target '{}' at '{}' refuses the CHAP user or its secret{}", options.target,
                   portal_, options.chap_user.empty() ? ": none was given" : "");
    case kAuthorizationFailure:
      return Error(StatusCode::kPermissionDenied, "target '{}' at '{}' does not admit '{}'",
                   options.target, portal_, options.initiator);
    case kTargetNotFound:
    case kTargetRemoved:
      return Error(StatusCode::kNotFound, "portal '{}' has no target '{}' for '{}'", portal_,
                   options.target, options.initiator);
    case 0:
      return Error(StatusCode::kUnavailable, "portal '{}' does not answer: {}", portal_,
                   base::Quote(words));
    default:
      return Error(StatusCode::kFailedPrecondition, "target '{}' at '{}' refuses the login: {}",
                   options.target, portal_, base::Quote(words));
  }
}

StatusOr<std::unique_ptr<Session>> Session::LogInAt(const LoginOptions& options,
                                                    const std::string& portal, Deadline deadline) {
  const auto addresses = ResolvePortal(portal, deadline);
  if (!addresses.ok()) {
    return base::Annotate(addresses.status(), fmt::format("portal '{}'", portal));
  }
  Status failure;
  for (size_t i = 0; i < addresses->size(); ++i) {
    const auto now = Clock::now();
    const auto share = (deadline - now) / static_cast<int64_t>(addresses->size() - i);
    auto session = LogInAtAddress(options, portal, (*addresses)[i], now + share);
    if (session.ok()) return session;
    if (i == 0 || Weight(session.status()) > Weight(failure)) failure = session.status();
  }
  return failure;
}

StatusOr<std::unique_ptr<Session>> Session::LogInAtAddress(const LoginOptions& options,
                                                           const std::string& portal,
                                                           const std::string& address,
                                                           Deadline deadline) {
  std::unique_ptr<Session> session(new Session);
  session->portal_ = portal;
  session->context_ = iscsi_create_context(options.initiator.c_str());
  if (session->context_ == nullptr) {
    return Error(StatusCode::kResourceExhausted, "there is no memory for an iSCSI session");
  }
  iscsi_context* context = session->context_;
  iscsi_set_noautoreconnect(context, 1);
  iscsi_set_targetname(context, options.target.c_str());
  iscsi_set_session_type(context, ISCSI_SESSION_NORMAL);
  iscsi_set_header_digest(context, ISCSI_HEADER_DIGEST_NONE_CRC32C);
  iscsi_set_isid_random(context, static_cast<uint32_t>(options.isid >> 16 & 0xffffff),
                        static_cast<uint32_t>(options.isid & 0xffff));
  iscsi_set_tcp_user_timeout(context, kTcpTimeoutMs);
  iscsi_set_tcp_keepidle(context, kKeepaliveIdle);
  iscsi_set_tcp_keepintvl(context, kKeepaliveInterval);
  iscsi_set_tcp_keepcnt(context, kKeepaliveCount);
  if (!options.chap_user.empty()) {
    iscsi_set_initiator_username_pwd(context, options.chap_user.c_str(),
                                     options.chap_password.c_str());
  }
  auto call = std::make_shared<Call>();
  session->calls_.push_back(call);
  // LUN -1: no TEST UNIT READY, because this class hands unit attentions to its user.
  if (iscsi_full_connect_async(context, address.c_str(), -1, &OnCall, call.get()) != 0) {
    return session->LoginFailure(options);
  }
  const Status awaited = session->AwaitCall(call, deadline);
  if (awaited.code() == StatusCode::kDeadlineExceeded) return awaited;
  if (!awaited.ok() || *call->status != SCSI_STATUS_GOOD) return session->LoginFailure(options);
  return session;
}

StatusOr<std::unique_ptr<Session>> Session::LogIn(const LoginOptions& options, Deadline deadline,
                                                  size_t first) {
  Status failure = Error(StatusCode::kInvalidArgument, "there is no portal");
  const size_t count = options.portals.size();
  for (size_t i = 0; i < count; ++i) {
    const auto now = Clock::now();
    const auto share = (deadline - now) / static_cast<int64_t>(count - i);
    auto session = LogInAt(options, options.portals[(first + i) % count], now + share);
    if (session.ok()) return session;
    if (i == 0 || Weight(session.status()) > Weight(failure)) failure = session.status();
  }
  return failure;
}

Session::~Session() {
  lost_ = true;
  if (context_ != nullptr) iscsi_destroy_context(context_);
  // What libiscsi did not answer, because it was still being sent.
  while (!tasks_.empty()) {
    const Done done = std::move(tasks_.front().done);
    tasks_.pop_front();
    done(Answer{});
  }
}

void Session::Submit(uint16_t lun, const Command& command, Done done) {
  if (lost_) {
    done(Answer{});
    return;
  }
  tasks_.push_back({.session = this, .command = command, .done = std::move(done)});
  Task& task = tasks_.back();
  task.place = std::prev(tasks_.end());
  const bool writes = !command.out.empty();
  const int direction = writes               ? SCSI_XFER_WRITE
                        : command.in.empty() ? SCSI_XFER_NONE
                                             : SCSI_XFER_READ;
  const size_t bytes = writes ? command.out.size() : command.in.size();
  scsi_task* scsi = scsi_create_task(command.cdb_bytes, task.command.cdb.data(), direction,
                                     static_cast<int>(bytes));
  bool sent = scsi != nullptr;
  if (sent && writes) {
    // libiscsi only reads this memory.
    task.out = {.iov_base = const_cast<uint8_t*>(command.out.data()), .iov_len = bytes};
    scsi_task_set_iov_out(scsi, &task.out, 1);
  } else if (sent && bytes != 0) {
    sent = scsi_task_add_data_in_buffer(scsi, static_cast<int>(bytes), command.in.data()) == 0;
  }
  if (sent &&
      iscsi_scsi_command_async(context_, WireLun(lun), scsi, &OnTask, nullptr, &task) == 0) {
    return;
  }
  const Done failed = std::move(task.done);
  tasks_.erase(task.place);
  if (scsi != nullptr) scsi_free_scsi_task(scsi);
  lost_ = true;
  failure_ = "a command could not be sent";
  failed(Answer{});
}

Status Session::Service(Deadline deadline, int wake) {
  if (!lost_) {
    pollfd polled[2] = {{.fd = iscsi_get_fd(context_),
                         .events = static_cast<short>(iscsi_which_events(context_)),
                         .revents = 0},
                        {.fd = wake, .events = POLLIN, .revents = 0}};
    if (poll(polled, 2, PollTimeout(deadline)) < 0) {
      if (errno != EINTR) failure_ = "poll failed";
      lost_ = errno != EINTR;
    } else if (iscsi_service(context_, polled[0].revents) < 0) {
      failure_ = iscsi_get_error(context_);
      lost_ = true;
    }
  }
  if (!lost_) return base::OkStatus();
  return Error(StatusCode::kUnavailable, "the connection to portal '{}' is lost: {}", portal_,
               base::Quote(failure_));
}

Status Session::AwaitCall(const std::shared_ptr<Call>& call, Deadline deadline) {
  while (!call->status) {
    if (Clock::now() >= deadline) {
      lost_ = true;
      failure_ = "no answer in time";
      return Error(StatusCode::kDeadlineExceeded, "portal '{}' did not answer in time", portal_);
    }
    if (const Status served = Service(deadline); !served.ok()) {
      return call->status ? base::OkStatus() : served;
    }
  }
  return base::OkStatus();
}

Answer Session::Run(uint16_t lun, const Command& command, Deadline deadline) {
  auto answer = std::make_shared<std::optional<Answer>>();
  Submit(lun, command, [answer](const Answer& got) { *answer = got; });
  while (!*answer) {
    if (Clock::now() >= deadline || !Service(deadline).ok()) {
      if (*answer) break;
      // The target may still answer into the command's memory. Without a connection it cannot.
      if (!lost_) failure_ = "no answer in time";
      lost_ = true;
      iscsi_destroy_context(std::exchange(context_, nullptr));
      return answer->value_or(Answer{});
    }
  }
  return **answer;
}

Status Session::ResetLun(uint16_t lun, Deadline deadline) {
  auto call = std::make_shared<Call>();
  calls_.push_back(call);
  if (lost_ || iscsi_task_mgmt_async(context_, WireLun(lun), ISCSI_TM_LUN_RESET, 0xffffffff, 0,
                                     &OnCall, call.get()) != 0) {
    return Error(StatusCode::kUnavailable, "reset LUN {}: the connection is lost", lun);
  }
  RETURN_IF_ERROR_WITH(AwaitCall(call, deadline), fmt::format("reset LUN {}", lun));
  if (*call->status != SCSI_STATUS_GOOD) {
    return Error(StatusCode::kUnavailable, "reset LUN {}: the connection broke", lun);
  }
  if (call->response == ISCSI_TMR_FUNC_COMPLETE) return base::OkStatus();
  return Error(call->response == ISCSI_TMR_TMF_NOT_SUPPORTED ? StatusCode::kUnimplemented
                                                             : StatusCode::kFailedPrecondition,
               "reset LUN {}: the target answers with response {}", lun, call->response);
}

void Session::LogOut(Deadline deadline) {
  if (lost_) return;
  auto call = std::make_shared<Call>();
  calls_.push_back(call);
  if (iscsi_logout_async(context_, &OnCall, call.get()) != 0) return;
  const Status ended = AwaitCall(call, deadline);
  if (!ended.ok()) LOG_DEBUG("log out of '{}': {}", portal_, base::ToString(ended));
  lost_ = true;
}

}  // namespace berth::iscsi
