// This file finds out who the client of a connection is, and decides whether its request may come
// in or go on.

#include <boost/asio/post.hpp>

#include "base/log.h"
#include "http/connection.h"
#include "http/server.h"

namespace berth::http {

bool Connection::AdmitHead() {
  const RequestHead head = reader_.head();
  if (const auto refusal = server_.service().CheckHead(head, user_.get())) {
    RefuseRequest(*refusal);
    return false;
  }
  if (client_class() == ClientClass::kOwner || (!user_ && !head.has_credentials)) return true;
  phase_ = Phase::kJudging;
  server_.SetStage(*this, Stage::kWorking);
  Request request = reader_.CopyHead();
  NameSender(request);
  Identify(std::move(request), &Connection::OnIdentified);
  return false;
}

// Makes a stranger's connection one of `user`. Returns false if that user has too many.
bool Connection::Promote(const std::shared_ptr<const User>& user) {
  if (client_class() != ClientClass::kStranger) return true;
  if (!server_.PromoteConnection(*this, *user)) return false;
  known_ = user;
  return true;
}

void Connection::NameSender(Request& request) const {
  request.user = user_;
  request.known = known_;
  if (known_ == nullptr) request.address = key();
}

void Connection::Identify(Request request, void (Connection::*done)(Identity)) {
  server_.service().Identify(std::move(request), [&loop = server_.loop(), weak = weak_from_this(),
                                                  done](Identity identity) {
    boost::asio::post(loop, [weak, done, identity = std::move(identity)]() mutable {
      if (const auto self = weak.lock()) {
        (static_cast<Connection&>(*self).*done)(std::move(identity));
      }
    });
  });
}

void Connection::JudgeStream() {
  if (!exchange_ || client_class() == ClientClass::kOwner) return;
  judge_stream_ = !exchange_->streaming();
  if (judge_stream_) return;
  const Request& current = exchange_->request();
  Request request{.method = current.method, .target = current.target, .headers = current.headers};
  NameSender(request);
  Identify(std::move(request), &Connection::OnJudged);
}

// If the stream has ended meanwhile, the client loses a connection without a request.
void Connection::OnJudged(Identity identity) {
  const bool invalid = (identity.answer && identity.answer->code == 401) ||
                       (identity.refusal && identity.refusal->code == 401);
  if (!invalid || closed()) return;
  LOG_INFO("{}: closed a stream whose sender's credentials have ended", server_.name());
  Close();
}

void Connection::OnIdentified(Identity identity) {
  if (phase_ != Phase::kJudging) return;
  phase_ = Phase::kReading;
  server_.SetStage(*this, Stage::kPartial);
  if (identity.answer) return AnswerAndClose(*identity.answer);
  if (identity.refusal) return RefuseRequest(*identity.refusal);
  if (identity.user && !Promote(identity.user)) {
    return RefuseRequest({.code = 429, .message = "too many connections of this user"});
  }
  ReceiveBody();
  if (phase_ == Phase::kReading && !waiting_read_) ReadSocket();
}

}  // namespace berth::http
