#include "iscsi/channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "iscsi/initiator_name.h"

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

// Tries a write that changes nothing. LIO lets every command pass that brings no data, and looks
// for the block before it looks for a reservation, so the second write is of a block that is there:
// zeroes in place of zeroes.
Answer TryWrite(LogicalUnit& unit, uint32_t block_bytes) {
  const Answer empty = unit.Run(Write(0, 0, {}));
  if (empty.outcome == Answer::Outcome::kConflict || empty.outcome == Answer::Outcome::kLost) {
    return empty;
  }
  const std::vector<uint8_t> zeroes(size_t{2} * block_bytes);
  return unit.Run(CompareAndWrite(0, zeroes));
}

std::optional<bool> ReadWriteCache(LogicalUnit& unit) {
  std::vector<uint8_t> data(192);
  const Answer answer = unit.Run(ModeSense(8, data));
  if (!answer.good()) return std::nullopt;
  const auto cache = ParseWriteCache({data.data(), answer.bytes});
  return cache.ok() ? std::optional(*cache) : std::nullopt;
}

}  // namespace

// Tries a write and a WRITE SAME from a session without a key.
StatusOr<bool> FencesWriteSame(const LoginOptions& login, uint16_t lun, const Capacity& capacity,
                               Deadline deadline) {
  LoginOptions other = login;
  other.isid = MakeIsid();
  ASSIGN_OR_RETURN(const auto session, Session::LogIn(other, deadline));
  SessionUnit unit(*session, lun, deadline);
  const Answer write = TryWrite(unit, capacity.block_bytes);
  if (write.outcome == Answer::Outcome::kLost) return AnswerError(write, "test the reservation");
  if (write.outcome != Answer::Outcome::kConflict) {
    return Error(StatusCode::kUnimplemented,
                 "the target does not refuse a write of a session without a key in spite of the "
                 "reservation ({}), so nobody could be fenced from it",
                 DescribeAnswer(write));
  }
  const std::vector<uint8_t> zeroes(capacity.block_bytes);
  const Answer same = unit.Run(WriteSame(capacity.blocks, 1, false, zeroes));
  session->LogOut(std::min(deadline, Clock::now() + kEndTime));
  return same.outcome == Answer::Outcome::kConflict;
}

struct Channel::Request {
  Command command;
  Deadline deadline;
  Deadline move_at;      // to another portal
  uint64_t written = 0;  // CacheWatch::OnFlushSent
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

// Tries each portal, because one may admit this node and have the LUN in standby.
Status Channel::Begin(Deadline deadline) {
  Status begun;
  for (size_t tries = login_.portals.size(); tries > 0; --tries) {
    const Deadline now = Clock::now();
    const Deadline end = now + (deadline - now) / static_cast<int64_t>(tries);
    ASSIGN_OR_RETURN(session_, Session::LogIn(login_, end, portal_));
    NotePortal();
    begun = AvoidHoldersName(session_, login_, options_.lun, end);
    if (begun.ok()) begun = BeginOn(end);
    if (begun.code() != StatusCode::kUnavailable) return begun;
    session_.reset();
    portal_ = (portal_ + 1) % login_.portals.size();
  }
  return begun;
}

void Channel::NotePortal() {
  const auto& portals = login_.portals;
  const auto at = std::ranges::find(portals, session_->portal());
  if (at != portals.end()) portal_ = static_cast<size_t>(at - portals.begin());
}

Status Channel::BeginOn(Deadline deadline) {
  SessionUnit unit(*session_, options_.lun, deadline);
  const std::string where = fmt::format("LUN {} of '{}'", options_.lun, login_.target);
  auto info = Inspect(unit);
  if (!info.ok()) return base::Annotate(info.status(), where);
  info_ = *std::move(info);
  if (options_.identity != info_.identity) {
    return Error(StatusCode::kDataLoss, "{} is '{}' by now, and not '{}'", where, info_.identity,
                 options_.identity);
  }
  if (options_.shared && IsLio(info_.vendor)) {
    return Error(StatusCode::kUnimplemented,
                 "{}: Linux's target (LIO) knows registered nodes by their names alone, so it "
                 "cannot keep an older process of a node from a volume that several nodes use",
                 where);
  }
  Reservations reservations(unit, options_.settings.owner);
  auto key = reservations.Acquire(options_.settings.node, options_.shared, options_.ticket);
  if (!key.ok()) return base::Annotate(key.status(), where);
  own_.key = *key;
  LOG_INFO("{} is reserved for node {}{}", where, options_.settings.node,
           options_.shared ? ", beside other nodes" : "");
  write_cache_ = ReadWriteCache(unit);
  cache_.emplace(options_.shared, write_cache_.value_or(true));
  greeted_ = true;
  const Status enforced = CheckEnforced(deadline);
  if (enforced.ok()) return enforced;
  End();
  return base::Annotate(enforced, where);
}

Status Channel::CheckEnforced(Deadline deadline) {
  ASSIGN_OR_RETURN(fences_write_same_,
                   FencesWriteSame(login_, options_.lun, info_.capacity, deadline));
  return base::OkStatus();
}

Answer Channel::Run(const Command& command) {
  Request request;
  request.command = command;
  request.deadline = Clock::now() + kRequestTime;
  request.move_at = login_.portals.size() > 1 ? Clock::now() + kPortalTime : request.deadline;
  const MutexLock lock(mutex_);
  new_.push_back(&request);
  eventfd_write(wake_.get(), 1);
  // The thread ends every request, so this needs no deadline of its own.
  while (!request.done) request.ended.Wait(mutex_);
  return request.answer;
}

void Channel::CompleteRequest(Request* request, const Answer& answer) {
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

void Channel::RetryRequest(Request* request, milliseconds pause) {
  if (++request->tries > kMostTries) {
    CompleteRequest(request, Answer{});
    return;
  }
  request->not_before = Clock::now() + pause;
  waiting_.push_back(request);
}

// Runs within Session::Service, or while the session ends, so it only notes what is to be done.
void Channel::HandleAnswer(Request* request, const Answer& answer) {
  std::erase(in_flight_, request);
  using Outcome = Answer::Outcome;
  if (answer.outcome == Outcome::kConflict) NoteFenced("the target answered RESERVATION CONFLICT");
  if (fenced_) return CompleteRequest(request, kFencedAnswer);
  if (answer.outcome == Outcome::kLost) {
    waiting_.push_back(request);
    return;
  }
  if (answer.outcome == Outcome::kBusy) {
    --request->tries;  // bounded by the request's time alone
    return RetryRequest(request, kBusyPause);
  }
  if (IsNotReady(answer)) {
    if (IsNotReadyHere(answer)) MoveToNextPortal("the LUN is in standby at this portal");
    --request->tries;
    return RetryRequest(request, kBusyPause);
  }
  const bool attention =
      answer.outcome == Outcome::kCheckCondition && answer.sense_key == kSenseUnitAttention;
  const bool aborted =
      answer.outcome == Outcome::kAborted ||
      (answer.outcome == Outcome::kCheckCondition && answer.sense_key == kSenseCommandAborted);
  if (!attention && !aborted) {
    greeted_ = true;
    Answer last = answer;
    WatchCache(*request, last);
    return CompleteRequest(request, last);
  }
  verify_ |= aborted;
  if (attention) HandleAttention(answer.sense_code);
  RetryRequest(request, milliseconds(0));
}

void Channel::HandleAttention(uint16_t sense_code) {
  cache_->OnAttention(sense_code, !greeted_);
  const auto code = static_cast<uint8_t>(sense_code >> 8);
  const bool harmless = sense_code == kCapacityChanged;
  verify_ |= (code == kAttentionChanged && !harmless) || code == kAttentionOther;
  // A reset may have dropped the other commands without an answer.
  renew_ |= code == kAttentionReset && !in_flight_.empty();
  verify_ |= code == kAttentionReset;
}

void Channel::WatchCache(const Request& request, Answer& answer) {
  if (!answer.good()) return;
  if (IsFlush(request.command)) {
    if (!cache_->lost()) return cache_->OnFlushed(request.written);
    LOG_ERROR(
        "LUN {} of '{}' lost writes that were not flushed, because the target lost power or "
        "was reset: its file system has to be checked",
        options_.lun, login_.target);
    answer = {.outcome = Answer::Outcome::kOther};
  } else if (!request.command.out.empty()) {
    cache_->OnWritten();
  }
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
    if (IsFlush(request->command)) request->written = cache_->OnFlushSent();
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

void Channel::NoteFenced(std::string_view why) {
  if (fenced_) return;
  fenced_ = true;
  LOG_ERROR("LUN {} of '{}' refuses this node from now on: {}", options_.lun, login_.target, why);
}

void Channel::EndLateRequests(Deadline now) {
  const auto late = [now](const Request* request) { return request->deadline <= now; };
  // Without a session the target cannot answer into the memory of a request that is over, nor run a
  // late write after one that is sent later.
  if (std::ranges::any_of(in_flight_, late)) DropSession("the target did not answer in time");
  const auto slow = [now](const Request* request) { return request->move_at <= now; };
  if (std::ranges::any_of(in_flight_, slow)) MoveToNextPortal("this portal does not answer");
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Request* request = *it;
    if (!late(request)) {
      ++it;
      continue;
    }
    it = waiting_.erase(it);
    CompleteRequest(request, Answer{});
  }
}

Status Channel::Verify(Deadline deadline) {
  SessionUnit unit(*session_, options_.lun, deadline,
                   [this](uint16_t code) { cache_->OnAttention(code, !greeted_); });
  ASSIGN_OR_RETURN(const std::string identity, ReadIdentity(unit));
  if (identity != info_.identity) {
    NoteFenced(fmt::format("it is '{}' by now, and not '{}'", identity, info_.identity));
    return base::OkStatus();
  }
  Reservations reservations(unit, options_.settings.owner);
  ASSIGN_OR_RETURN(const uint32_t before, reservations.ReadGeneration());
  cache_->OnGeneration(before);
  const Status resumed = reservations.Resume(options_.settings.node, own_, options_.shared);
  if (resumed.code() == StatusCode::kFailedPrecondition) {
    NoteFenced(base::Message(resumed));
    return base::OkStatus();
  }
  RETURN_IF_ERROR(resumed);
  greeted_ = true;
  return base::OkStatus();
}

// Ends the session once the present answer is handled.
void Channel::MoveToNextPortal(std::string_view why) {
  const size_t count = login_.portals.size();
  if (session_ == nullptr || renew_) return;
  LOG_WARNING("LUN {}: portal '{}': {}", options_.lun, session_->portal(), why);
  portal_ = (portal_ + 1) % count;
  renew_ = true;
  for (Request* request : in_flight_) request->move_at = request->deadline;
}

void Channel::Connect(Deadline now) {
  if (now < next_login_) return;
  auto session = Session::LogIn(login_, now + kLoginTime, portal_);
  Status outcome = session.status();
  if (session.ok()) {
    session_ = *std::move(session);
    NotePortal();
    greeted_ = false;
    outcome = Verify(Clock::now() + kVerifyTime);
    if (outcome.ok() && !fenced_) {
      LOG_INFO("LUN {}: the session is logged in anew at '{}'", options_.lun, session_->portal());
    }
    if (!outcome.ok()) session_.reset();
  }
  verify_ = renew_ = false;
  if (outcome.ok()) {
    failures_ = 0;
    logged_failures_.clear();
    next_login_ = {};
    return;
  }
  // Each kind of failure once: a target that is slow at first may refuse the login later.
  if (logged_failures_.insert(outcome.code()).second) {
    LOG_WARNING("LUN {}: {}", options_.lun, base::ToString(outcome));
  }
  portal_ = (portal_ + 1) % login_.portals.size();
  const auto pause = kFirstLoginPause * (1 << std::min(failures_++, 4));
  next_login_ = Clock::now() + std::min<milliseconds>(pause, kLongestLoginPause);
}

Deadline Channel::NextEvent(Deadline now) const {
  Deadline next = now + kIdle;
  for (const Request* request : in_flight_) {
    next = std::min({next, request->deadline, std::max(request->move_at, now)});
  }
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
        CompleteRequest(waiting_.front(), kFencedAnswer);
        waiting_.pop_front();
      }
    } else if (session_ != nullptr && (renew_ || session_->lost())) {
      DropSession(renew_ ? "the session ends" : "the connection is lost");
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
    EndLateRequests(Clock::now());
  }
}

void Channel::End() {
  if (fenced_) return;
  if (session_ == nullptr && thread_.joinable()) {
    next_login_ = {};
    Connect(Clock::now());
    if (fenced_) return;
  }
  const Deadline deadline = Clock::now() + kEndTime;
  Status released = Error(StatusCode::kUnavailable, "there is no connection to the target");
  if (session_ != nullptr) {
    SessionUnit unit(*session_, options_.lun, deadline);
    Reservations reservations(unit, options_.settings.owner);
    released = reservations.Release(own_.key);
    session_->LogOut(deadline);
    session_.reset();
  }
  if (released.ok()) {
    LOG_INFO("LUN {} of '{}' is no longer reserved for node {}", options_.lun, login_.target,
             options_.settings.node);
  }
  // FAILED_PRECONDITION: it was fenced, so there is nothing to give back.
  if (released.ok() || released.code() == StatusCode::kFailedPrecondition) return;
  LOG_ERROR("LUN {}: give its reservation back: {}", options_.lun, base::ToString(released));
  if (options_.on_release_failure != nullptr) options_.on_release_failure(released);
}

}  // namespace berth::iscsi
