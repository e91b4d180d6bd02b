// The way of a client within the process: its thread runs the request itself, in place of a
// connection, the event loop and a worker.
//
// A request takes the same steps as one of the UNIX socket: it is the process's own user
// (HttpFront), may impersonate, and is authorized, admitted and validated. Its text is what a
// connection would carry, so the server's answers to both are the same. What takes longer - a write
// that others commit, the pages of a list, the events of a watch - comes from the server's threads,
// and the caller waits for it within its deadline. A write that this thread commits itself takes as
// long as the disk does.
//
// Thread-safe.
#pragma once

#include "apiserver/http_front.h"
#include "apiserver/request_router.h"
#include "apiserver/server.h"
#include "base/workers/semaphore.h"
#include "http/local_call.h"
#include "kube/http/transport.h"

namespace berth::apiserver {

class LocalTransport : public kube::Transport {
 public:
  // Borrows all but the options. `runs` bounds how many requests run at the same time.
  LocalTransport(RequestRouter& router, const HttpFront& front, base::Semaphore& runs,
                 const LocalClientOptions& options);

  base::StatusOr<kube::HttpAnswer> PerformRequest(const kube::HttpRequest& request,
                                                  Time deadline) override;
  base::Status StreamResponse(const kube::HttpRequest& request, std::stop_token stop, Time deadline,
                              const Consume& consume) override;
  const kube::HttpClientOptions& options() const override { return options_.requests; }

 private:
  http::Request MakeRequest(const kube::HttpRequest& request) const;
  // Waits until a request may run. CANCELLED: `stop` came. DEADLINE_EXCEEDED: too many requests ran
  // until `deadline`.
  base::StatusOr<base::Semaphore::Permit> WaitForPermit(Time deadline, const std::stop_token& stop);
  // Runs the request up to the point at which it waits for others, and gives the permit back.
  std::unique_ptr<http::LocalCall> BeginCall(const kube::HttpRequest& request,
                                             base::Semaphore::Permit permit);

  RequestRouter& router_;
  const HttpFront& front_;
  base::Semaphore& runs_;
  const LocalClientOptions options_;
  const std::shared_ptr<const http::User> user_;
};

}  // namespace berth::apiserver
