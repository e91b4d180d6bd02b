// Makes HTTP requests and reads HTTP streams of one server, with libcurl and kept-alive
// connections.
//
// Each idle handle holds one connection. The handle that was used last is used first. A handle that
// was unused for two seconds is closed when another handle is released or a stream wakes, so that
// the connections of a burst do not stay. A stream wakes when it brings something, and every two
// seconds while handles are idle. Thread-safe.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "kube/config.h"
#include "kube/http/http_client.h"
#include "kube/http/pace.h"
#include "kube/http/transport.h"

namespace berth::kube {

class HttpTransport : public Transport {
 public:
  static base::StatusOr<std::unique_ptr<HttpTransport>> New(const Config& config,
                                                            const HttpClientOptions& options);
  ~HttpTransport() override;

  base::StatusOr<HttpAnswer> PerformRequest(const HttpRequest& request, Time deadline) override;
  base::Status StreamResponse(const HttpRequest& request, std::stop_token stop, Time deadline,
                              const Consume& consume) override;
  const HttpClientOptions& options() const override { return options_; }

 private:
  class Handle;
  struct Idle {
    std::unique_ptr<Handle> handle;
    Time since;
  };

  HttpTransport(const Config& config, const HttpClientOptions& options);

  // Waits until fewer than max_in_flight handles are in use, and returns an idle handle or a new
  // one. DEADLINE_EXCEEDED: that took longer than until `deadline`.
  base::StatusOr<std::unique_ptr<Handle>> AcquireHandle(Time deadline);
  void ReleaseHandle(std::unique_ptr<Handle> handle);
  // Closes the handles that were unused for too long. Returns whether no idle one is left.
  bool CloseUnused();
  // Returns the bearer token; empty if there is none. Reads it again from its file each minute.
  std::string FindToken();

  const Config config_;
  const HttpClientOptions options_;
  const std::string server_;  // its address, for error messages
  Pace pace_;

  base::Mutex mutex_;
  base::CondVar released_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Idle> idle_ ABSL_GUARDED_BY(mutex_);  // the most recently used last
  std::string token_ ABSL_GUARDED_BY(mutex_);
  Time token_read_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::kube
