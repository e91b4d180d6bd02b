#include "iscsi/channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "iscsi/reservations.h"

namespace berth::iscsi {

using base::Error;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t kMostInFlight = 64;
constexpr int kMostTries = 20;  // of a command that the target answered with "again"
constexpr milliseconds kBusyPause{100};
constexpr milliseconds kFirstLoginPause{200};
constexpr seconds kLongestLoginPause{3};
constexpr seconds kLoginTime{5};
constexpr seconds kVerifyTime{5};
constexpr seconds kEndTime{5};
constexpr seconds kIdle{1};

// The upper byte of unit attentions (SPC-4, annex F).
constexpr uint8_t kAttentionReset = 0x29;
constexpr uint8_t kAttentionChanged = 0x2a;  // parameters, reservations, capacity
constexpr uint8_t kAttentionOther = 0x3f;    // the target's LUNs or what this one is
constexpr uint16_t kCapacityChanged = 0x2a09;

constexpr Answer kFencedAnswer{.outcome = Answer::Outcome::kConflict};

}  // namespace

struct Channel::Request {
  Command command;
  Deadline deadline;
  Deadline not_before{};
  int tries = 0;
  Answer answer;
  bool done = false;  // guarded by the channel's mutex
  base::CondVar ended;
};

StatusOr<std::unique_ptr<Channel>> Channel::Open(const ChannelOptions& options, Deadline deadline) {
  std::unique_ptr<Channel> channel(new Channel(options));
  channel->wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!channel->wake_.valid()) {
    return Error(StatusCode::kResourceExhausted, "make an eventfd: {}", std::strerror(errno));
  }
  RETURN_IF_ERROR(channel->Begin(deadline));
  channel->thread_ =
      std::jthread([raw = channel.get()](const std::stop_token& stop) { raw->Serve(stop); });
  return channel;
}

Channel::~Channel() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

Status Channel::Begin(Deadline deadline) {
  ASSIGN_OR_RETURN(session_, Session::LogIn(options_.settings.login, deadline));
  SessionUnit unit(*session_, options_.lun, deadline);
  const std::string where =
      fmt::format("LUN {} of '{}'", options_.lun, options_.settings.login.target);
  auto info = Inspect(unit);
  if (!info.ok()) return base::Annotate(info.status(), where);
  info_ = *std::move(info);
  if (options_.identity != info_.identity) {
    return Error(StatusCode::kDataLoss, "{} is '{}' by now, and not '{}'", where, info_.identity,
                 options_.identity);
  }
  Reservations reservations(unit, options_.settings.owner);
  auto key = reservations.Acquire(options_.settings.node, options_.shared);
  if (!key.ok()) return base::Annotate(key.status(), where);
  key_ = *key;
  const Status enforced = CheckEnforced(deadline);
  if (enforced.ok()) return enforced;
  End();
  return base::Annotate(enforced, where);
}

// Tries, from a session without a key, two commands that change nothing even if the target takes
// them: a write of no blocks, and one behind the last block.
Status Channel::CheckEnforced(Deadline deadline) {
  LoginOptions other = options_.settings.login;
  other.isid = MakeIsid();
  ASSIGN_OR_RETURN(const auto session, Session::LogIn(other, deadline));
  SessionUnit unit(*session, options_.lun, deadline);
  const Answer write = unit.Run(Write(0, 0, {}));
  if (write.outcome == Answer::Outcome::kLost) return AnswerError(write, "test the reservation");
  if (write.outcome != Answer::Outcome::kConflict) {
    return Error(StatusCode::kFailedPrecondition,
                 "the target does not refuse writes of other sessions in spite of the "
                 "reservation ({}), so nobody could be fenced from it",
                 DescribeAnswer(write));
  }
  const std::vector<uint8_t> zeroes(info_.capacity.block_bytes);
  const Answer same = unit.Run(WriteSame(info_.capacity.blocks, 1, false, zeroes));
  fences_write_same_ = same.outcome == Answer::Outcome::kConflict;
  session->LogOut(std::min(deadline, Clock::now() + kEndTime));
  return base::OkStatus();
}

Answer Channel::Run(const Command& command) {
  Request request;
  request.command = command;
  request.deadline = Clock::now() + kRequestTime;
  const MutexLock lock(mutex_);
  new_.push_back(&request);
  eventfd_write(wake_.get(), 1);
  // The thread ends every request, so this needs no deadline of its own.
  while (!request.done) request.ended.Wait(mutex_);
  return request.answer;
}

void Channel::Complete(Request* request, const Answer& answer) {
  const MutexLock lock(mutex_);
  request->answer = answer;
  request->done = true;
  request->ended.NotifyOne();
}

void Channel::TakeRequests() {
  eventfd_t count;
  eventfd_read(wake_.get(), &count);
  const MutexLock lock(mutex_);
  waiting_.insert(waiting_.end(), new_.begin(), new_.end());
  new_.clear();
}

void Channel::Retry(Request* request, milliseconds pause) {
  if (++request->tries > kMostTries) {
    Complete(request, Answer{});
    return;
  }
  request->not_before = Clock::now() + pause;
  waiting_.push_back(request);
}

// Runs within Session::Service, or while the session ends, so it only notes what is to be done.
void Channel::HandleAnswer(Request* request, const Answer& answer) {
  std::erase(in_flight_, request);
  using Outcome = Answer::Outcome;
  if (answer.outcome == Outcome::kConflict) Die("the target answered RESERVATION CONFLICT");
  if (fenced_) return Complete(request, kFencedAnswer);
  if (answer.outcome == Outcome::kLost) {
    waiting_.push_back(request);
    return;
  }
  if (answer.outcome == Outcome::kBusy) {
    --request->tries;  // bounded by the request's time alone
    return Retry(request, kBusyPause);
  }
  const bool attention =
      answer.outcome == Outcome::kCheckCondition && answer.sense_key == kSenseUnitAttention;
  const bool aborted =
      answer.outcome == Outcome::kAborted ||
      (answer.outcome == Outcome::kCheckCondition && answer.sense_key == kSenseCommandAborted);
  if (!attention && !aborted) return Complete(request, answer);
  const auto code = static_cast<uint8_t>(answer.sense_code >> 8);
  const bool harmless = answer.sense_code == kCapacityChanged;
  verify_ |= aborted || (code == kAttentionChanged && !harmless) || code == kAttentionOther;
  // A reset may have dropped the other commands without an answer.
  renew_ |= code == kAttentionReset && !in_flight_.empty();
  verify_ |= code == kAttentionReset;
  Retry(request, milliseconds(0));
}

void Channel::SubmitWaiting(Deadline now) {
  for (auto it = waiting_.begin(); it != waiting_.end() && in_flight_.size() < kMostInFlight;) {
    Request* request = *it;
    if (request->not_before > now) {
      ++it;
      continue;
    }
    it = waiting_.erase(it);
    in_flight_.push_back(request);
    session_->Submit(options_.lun, request->command,
                     [this, request](const Answer& answer) { HandleAnswer(request, answer); });
    if (session_->lost()) return;
  }
}

void Channel::DropSession(std::string_view why) {
  if (session_ == nullptr) return;
  if (!fenced_) LOG_WARNING("LUN {}: {}; logging in anew", options_.lun, why);
  session_.reset();  // its commands come back as kLost
}

void Channel::Die(std::string_view why) {
  if (fenced_) return;
  fenced_ = true;
  LOG_ERROR("LUN {} of '{}' refuses this node from now on: {}", options_.lun,
            options_.settings.login.target, why);
}

void Channel::Expire(Deadline now) {
  const auto late = [now](const Request* request) { return request->deadline <= now; };
  // Without a session the target cannot answer into the memory of a request that is over, nor run a
  // late write after one that is sent later.
  if (std::ranges::any_of(in_flight_, late)) DropSession("the target did not answer in time");
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Request* request = *it;
    if (!late(request)) {
      ++it;
      continue;
    }
    it = waiting_.erase(it);
    Complete(request, Answer{});
  }
}

Status Channel::Verify(Deadline deadline) {
  SessionUnit unit(*session_, options_.lun, deadline);
  ASSIGN_OR_RETURN(const std::string identity, ReadIdentity(unit));
  if (identity != info_.identity) {
    Die(fmt::format("it is '{}' by now, and not '{}'", identity, info_.identity));
    return base::OkStatus();
  }
  Reservations reservations(unit, options_.settings.owner);
  auto key = reservations.Resume(options_.settings.node, key_, options_.shared);
  if (key.ok()) {
    key_ = *key;
  } else if (key.status().code() == StatusCode::kFailedPrecondition) {
    Die(base::Message(key.status()));
  } else {
    return key.status();
  }
  return base::OkStatus();
}

void Channel::Connect(Deadline now) {
  if (now < next_login_) return;
  const LoginOptions& login = options_.settings.login;
  auto session = Session::LogIn(login, now + kLoginTime, portal_);
  Status outcome = session.status();
  if (session.ok()) {
    session_ = *std::move(session);
    outcome = Verify(Clock::now() + kVerifyTime);
    if (outcome.ok() && !fenced_) {
      LOG_INFO("LUN {}: logged in anew at '{}'", options_.lun, session_->portal());
    }
    if (!outcome.ok()) session_.reset();
  }
  verify_ = renew_ = false;
  if (outcome.ok()) {
    failures_ = 0;
    next_login_ = {};
    return;
  }
  if (failures_ == 0) LOG_WARNING("LUN {}: {}", options_.lun, base::ToString(outcome));
  portal_ = (portal_ + 1) % login.portals.size();
  const auto pause = kFirstLoginPause * (1 << std::min(failures_++, 4));
  next_login_ = Clock::now() + std::min<milliseconds>(pause, kLongestLoginPause);
}

Deadline Channel::NextEvent(Deadline now) const {
  Deadline next = now + kIdle;
  for (const Request* request : in_flight_) next = std::min(next, request->deadline);
  const bool can_send = session_ != nullptr && in_flight_.size() < kMostInFlight;
  for (const Request* request : waiting_) {
    next = std::min(next, request->deadline);
    if (can_send) next = std::min(next, std::max(request->not_before, now));
  }
  if (session_ == nullptr && !fenced_) next = std::min(next, next_login_);
  return std::max(next, now);
}

void Channel::Serve(const std::stop_token& stop) {
  while (true) {
    TakeRequests();
    if (fenced_) {
      session_.reset();
      while (!waiting_.empty()) {
        Complete(waiting_.front(), kFencedAnswer);
        waiting_.pop_front();
      }
    } else if (session_ != nullptr && (renew_ || session_->lost())) {
      DropSession(renew_ ? "the target was reset" : "the connection is lost");
    }
    if (stop.stop_requested() && waiting_.empty() && in_flight_.empty()) return End();
    if (session_ == nullptr && !fenced_) Connect(Clock::now());
    if (session_ != nullptr && verify_ && !fenced_) {
      verify_ = false;
      const Status verified = Verify(Clock::now() + kVerifyTime);
      if (!verified.ok()) DropSession(base::Message(verified));
    }
    if (fenced_ && session_ != nullptr) continue;
    const Deadline now = Clock::now();
    if (session_ != nullptr && !verify_) SubmitWaiting(now);
    if (session_ != nullptr && !session_->lost()) {
      // Before the check for late requests, so that a process that was frozen reads what has come.
      (void)session_->Service(NextEvent(now), wake_.get());
    } else {
      pollfd polled{.fd = wake_.get(), .events = POLLIN, .revents = 0};
      const auto left = std::chrono::ceil<milliseconds>(NextEvent(now) - now).count();
      poll(&polled, 1, static_cast<int>(left));
    }
    Expire(Clock::now());
  }
}

void Channel::End() {
  if (session_ == nullptr || fenced_) return;
  const Deadline deadline = Clock::now() + kEndTime;
  SessionUnit unit(*session_, options_.lun, deadline);
  Reservations reservations(unit, options_.settings.owner);
  if (const Status released = reservations.Release(key_); !released.ok()) {
    LOG_WARNING("LUN {}: hand its reservation over: {}", options_.lun, base::ToString(released));
  }
  session_->LogOut(deadline);
  session_.reset();
}

}  // namespace berth::iscsi
