#include "kube/http/http_transport.h"

#include <curl/curl.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "base/free_text.h"
#include "base/log.h"
#include "kube/http/http_status.h"
#include "kube/send_guard.h"

namespace berth::kube {

using base::Error;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::chrono::seconds kTcpConnectTimeout{10};
// A connection takes 60 KiB, and a burst opens up to HttpClientOptions::max_in_flight of them.
constexpr std::chrono::milliseconds kIdleTime{2000};
constexpr std::chrono::milliseconds kMaxWait = std::chrono::hours(1);  // of a stream, for bytes
constexpr std::chrono::seconds kTokenTime{60};  // after it, the token file is read again
constexpr size_t kMaxErrorBody = 64 * 1024;
constexpr long kBufferBytes = 16 * 1024;

using Time = HttpTransport::Time;

std::chrono::milliseconds TimeUntil(Time deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

Status InitCurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code == CURLE_OK) return base::OkStatus();
  return Error(StatusCode::kInternal, "libcurl cannot be initialized: {}",
               curl_easy_strerror(code));
}

// Returns the list of hosts for which no proxy is used. It has this machine's own addresses,
// because Go's clients never use a proxy for them.
std::string MakeNoProxyList() {
  std::string list = "localhost,127.0.0.1,::1";
  for (const char* name : {"no_proxy", "NO_PROXY"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      return value == std::string_view("*") ? "*" : fmt::format("{},{}", list, value);
    }
  }
  return list;
}

curl_blob MakeBlob(const std::string& data) {
  // The data is not copied, because the transport's Config outlives its handles.
  return {.data = const_cast<char*>(data.data()), .len = data.size(), .flags = CURL_BLOB_NOCOPY};
}

}  // namespace

std::string HttpRequest::ToText() const {
  return fmt::format("{} {}", method, std::string_view(target).substr(0, target.find('?')));
}

// A libcurl handle together with the data that a request leaves in it.
class HttpTransport::Handle {
 public:
  Handle(const Config& config, const HttpClientOptions& options) : easy_(curl_easy_init()) {
    if (easy_ == nullptr) return;
    SetOption(CURLOPT_ERRORBUFFER, error_.data());
    SetOption(CURLOPT_NOSIGNAL, 1L);
    SetOption(CURLOPT_PROTOCOLS_STR, "http,https");
    SetOption(CURLOPT_PATH_AS_IS, 1L);
    SetOption(CURLOPT_BUFFERSIZE, kBufferBytes);
    SetOption(CURLOPT_UPLOAD_BUFFERSIZE, kBufferBytes);
    SetOption(CURLOPT_USERAGENT, options.user_agent.c_str());
    SetOption(CURLOPT_CONNECTTIMEOUT_MS,
              static_cast<long>(std::chrono::milliseconds(kTcpConnectTimeout).count()));
    SetOption(CURLOPT_WRITEFUNCTION, &Handle::OnBody);
    SetOption(CURLOPT_WRITEDATA, this);
    // A handle has a connection of its own, with one request at a time, so HTTP/2 would only cost
    // more: 40 KiB for each connection, and a fifth of the time that a long list takes.
    SetOption(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    if (!config.socket.empty()) {
      SetOption(CURLOPT_UNIX_SOCKET_PATH, config.socket.c_str());
      SetOption(CURLOPT_PROXY, "");
      return;
    }
    SetOption(CURLOPT_TCP_KEEPALIVE, 1L);
    SetOption(CURLOPT_TCP_KEEPIDLE, 30L);
    SetOption(CURLOPT_TCP_KEEPINTVL, 10L);
    if (!config.proxy_url.empty()) SetOption(CURLOPT_PROXY, config.proxy_url.c_str());
    SetOption(CURLOPT_NOPROXY, MakeNoProxyList().c_str());
    SetTls(config);
  }
  ~Handle() {
    curl_slist_free_all(headers_);
    curl_easy_cleanup(easy_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  bool ok() const { return easy_ != nullptr; }
  CURL* easy() { return easy_; }

  // `request` must live until the request is done.
  void PrepareRequest(const Config& config, const HttpRequest& request, const std::string& token,
                      size_t max_body_bytes) {
    received.clear();
    max_bytes_ = max_body_bytes;
    too_large_ = false;
    error_[0] = '\0';
    const std::string base = config.socket.empty() ? config.server : "http://localhost";
    SetOption(CURLOPT_URL, (std::string_view(base).ends_with('/')
                                ? base.substr(0, base.size() - 1) + request.target
                                : base + request.target)
                               .c_str());
    if (request.content_type.empty()) {
      SetOption(CURLOPT_HTTPGET, 1L);
    } else {
      SetOption(CURLOPT_POSTFIELDS, request.body.c_str());
      SetOption(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    }
    SetOption(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_slist_free_all(std::exchange(headers_, nullptr));
    AddHeader("Accept: " + request.accept);
    // Without this header a large body would wait for the server's "100 Continue".
    AddHeader("Expect:");
    if (!request.content_type.empty()) AddHeader("Content-Type: " + request.content_type);
    if (!token.empty()) AddHeader("Authorization: Bearer " + token);
    if (!config.impersonate_user.empty()) AddHeader("Impersonate-User: " + config.impersonate_user);
    for (const std::string& group : config.impersonate_groups) {
      AddHeader("Impersonate-Group: " + group);
    }
    SetOption(CURLOPT_HTTPHEADER, headers_);
  }

  template <typename T>
  void SetOption(CURLoption option, T value) {
    // This fails only if memory is short, or if this libcurl lacks the option, which a test would
    // have found.
    curl_easy_setopt(easy_, option, value);
  }

  long code() {
    long code = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }

  Status MakeFailure(CURLcode code, std::string_view request, std::string_view server) const {
    if (too_large_) {
      return Error(StatusCode::kResourceExhausted, "{}: the answer exceeds {} bytes", request,
                   max_bytes_);
    }
    const std::string_view cause = error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
    return Error(
        code == CURLE_OPERATION_TIMEDOUT ? StatusCode::kDeadlineExceeded : StatusCode::kUnavailable,
        "{}: API server at {}: {}", request, base::Quote(server), cause);
  }

  std::string received;

 private:
  static size_t OnBody(char* data, size_t size, size_t count, void* self) {
    auto* handle = static_cast<Handle*>(self);
    if (handle->received.size() + size * count > handle->max_bytes_) {
      handle->too_large_ = true;
      return 0;
    }
    handle->received.append(data, size * count);
    return size * count;
  }

  void AddHeader(const std::string& line) { headers_ = curl_slist_append(headers_, line.c_str()); }

  void SetTls(const Config& config) {
    SetOption(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
    if (config.insecure_skip_tls_verify) {
      SetOption(CURLOPT_SSL_VERIFYPEER, 0L);
      SetOption(CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (!config.certificate_authority.empty()) {
      curl_blob blob = MakeBlob(config.certificate_authority);
      SetOption(CURLOPT_CAINFO_BLOB, &blob);
    }
    if (!config.client_certificate.empty()) {
      curl_blob blob = MakeBlob(config.client_certificate);
      SetOption(CURLOPT_SSLCERT_BLOB, &blob);
      SetOption(CURLOPT_SSLCERTTYPE, "PEM");
    }
    if (!config.client_key.empty()) {
      curl_blob blob = MakeBlob(config.client_key);
      SetOption(CURLOPT_SSLKEY_BLOB, &blob);
      SetOption(CURLOPT_SSLKEYTYPE, "PEM");
    }
  }

  CURL* const easy_;
  curl_slist* headers_ = nullptr;
  std::array<char, CURL_ERROR_SIZE> error_{};
  size_t max_bytes_ = 0;
  bool too_large_ = false;
};

StatusOr<std::unique_ptr<HttpTransport>> HttpTransport::New(const Config& config,
                                                            const HttpClientOptions& options) {
  RETURN_IF_ERROR(InitCurl());
  if (config.socket.empty() && config.server.empty()) {
    return Error(StatusCode::kInvalidArgument, "the configuration names no API server");
  }
  return std::unique_ptr<HttpTransport>(new HttpTransport(config, options));
}

HttpTransport::HttpTransport(const Config& config, const HttpClientOptions& options)
    : config_(config),
      options_(options),
      server_(config.socket.empty() ? config.server : "unix://" + config.socket),
      pace_(options.queries_per_second, options.burst),
      token_(config.token) {}

HttpTransport::~HttpTransport() = default;

std::string HttpTransport::FindToken() {
  MutexLock lock(mutex_);
  if (config_.token_file.empty()) return token_;
  const auto now = std::chrono::steady_clock::now();
  if (token_read_ != Time() && now - token_read_ < kTokenTime) return token_;
  std::string token = ReadTokenFile(config_.token_file);
  if (token.empty()) {
    // The old token may still be valid. If there is none, the server reports that.
    LOG_WARNING("token file {} cannot be read or is empty", base::Quote(config_.token_file));
  } else {
    token_ = std::move(token);
  }
  token_read_ = now;
  return token_;
}

StatusOr<std::unique_ptr<HttpTransport::Handle>> HttpTransport::AcquireHandle(Time deadline) {
  {
    MutexLock lock(mutex_);
    while (in_flight_ >= options_.max_in_flight) {
      if (!released_.WaitUntil(mutex_, deadline) && in_flight_ >= options_.max_in_flight) {
        return Error(StatusCode::kDeadlineExceeded,
                     "{} requests to the API are under way, and none of them ended in time",
                     in_flight_);
      }
    }
    ++in_flight_;
    if (!idle_.empty()) {
      auto handle = std::move(idle_.back().handle);
      idle_.pop_back();
      return handle;
    }
  }
  return std::make_unique<Handle>(config_, options_);
}

void HttpTransport::ReleaseHandle(std::unique_ptr<Handle> handle) {
  base::FreeText(handle->received);
  CloseUnused();
  MutexLock lock(mutex_);
  --in_flight_;
  if (handle->ok()) idle_.push_back({std::move(handle), std::chrono::steady_clock::now()});
  released_.NotifyOne();
}

bool HttpTransport::CloseUnused() {
  std::vector<Idle> expired;  // closed without the lock
  MutexLock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  const auto fresh = std::find_if(idle_.begin(), idle_.end(),
                                  [&](const Idle& idle) { return now - idle.since < kIdleTime; });
  std::move(idle_.begin(), fresh, std::back_inserter(expired));
  idle_.erase(idle_.begin(), fresh);
  return idle_.empty();
}

StatusOr<HttpAnswer> HttpTransport::PerformRequest(const HttpRequest& request, Time deadline) {
  RETURN_IF_ERROR_WITH(pace_.WaitForTurn(deadline), request.ToText());
  const std::string token = FindToken();
  auto acquired = AcquireHandle(deadline);
  if (!acquired.ok()) return base::Annotate(acquired.status(), request.ToText());
  std::unique_ptr<Handle> handle = *std::move(acquired);
  const SendGuard* guard = SendGuard::Current();
  const Status may_send = guard == nullptr ? base::OkStatus() : guard->CheckMaySend();
  const auto left = TimeUntil(guard == nullptr ? deadline : guard->LimitDeadline(deadline));
  StatusOr<HttpAnswer> result = HttpAnswer();
  if (!may_send.ok()) {
    result = base::Annotate(may_send, request.ToText());
  } else if (!handle->ok()) {
    result = Error(StatusCode::kUnavailable, "{}: libcurl has no handle", request.ToText());
  } else if (left.count() == 0) {
    result = Error(StatusCode::kDeadlineExceeded, "{}: no time is left for the request",
                   request.ToText());
  } else {
    handle->PrepareRequest(config_, request, token,
                           std::min(options_.max_body_bytes, request.max_answer_bytes));
    handle->SetOption(CURLOPT_TIMEOUT_MS, static_cast<long>(left.count()));
    const bool compress = options_.compress && config_.socket.empty() && request.method == "GET";
    handle->SetOption(CURLOPT_ACCEPT_ENCODING,
                      compress ? "gzip" : static_cast<const char*>(nullptr));
    const CURLcode code = curl_easy_perform(handle->easy());
    if (code != CURLE_OK) {
      result = handle->MakeFailure(code, request.ToText(), server_);
    } else {
      curl_off_t retry_after = 0;
      curl_easy_getinfo(handle->easy(), CURLINFO_RETRY_AFTER, &retry_after);
      result->code = handle->code();
      result->body = std::move(handle->received);
      if (retry_after > 0) result->retry_after = std::chrono::seconds(retry_after);
    }
  }
  ReleaseHandle(std::move(handle));
  return result;
}

Status HttpTransport::StreamResponse(const HttpRequest& request, std::stop_token stop,
                                     Time deadline, const Consume& consume) {
  const Time answer_by = std::chrono::steady_clock::now() + options_.request_timeout;
  Handle handle(config_, options_);
  const std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi(curl_multi_init(),
                                                                    &curl_multi_cleanup);
  if (!handle.ok() || multi == nullptr) {
    return Error(StatusCode::kUnavailable, "{}: libcurl has no handle", request.ToText());
  }
  handle.PrepareRequest(config_, request, FindToken(), options_.max_body_bytes);
  curl_multi_add_handle(multi.get(), handle.easy());
  // The handle is removed from `multi` before either is freed.
  const std::unique_ptr<CURL, std::function<void(CURL*)>> added(
      handle.easy(), [&](CURL* easy) { curl_multi_remove_handle(multi.get(), easy); });
  const std::stop_callback wake(stop, [&] { curl_multi_wakeup(multi.get()); });

  while (true) {
    int running = 0;
    const CURLMcode code = curl_multi_perform(multi.get(), &running);
    if (stop.stop_requested()) {
      return Error(StatusCode::kCancelled, "{}: the stream was stopped", request.ToText());
    }
    if (code != CURLM_OK) {
      return Error(StatusCode::kUnavailable, "{}: {}", request.ToText(), curl_multi_strerror(code));
    }
    const long http_code = handle.code();
    if (http_code == 200 && !handle.received.empty()) {
      ASSIGN_OR_RETURN(const bool more, consume(handle.received));
      if (!more) return base::OkStatus();
    } else if (http_code != 200 && handle.received.size() > kMaxErrorBody) {
      return StatusFromHttp(http_code, std::string_view(handle.received).substr(0, kMaxErrorBody),
                            request.ToText());
    }
    if (running == 0) {
      int left = 0;
      const CURLMsg* message = curl_multi_info_read(multi.get(), &left);
      const CURLcode result = message == nullptr ? CURLE_RECV_ERROR : message->data.result;
      if (result != CURLE_OK) return handle.MakeFailure(result, request.ToText(), server_);
      if (http_code != 200) return StatusFromHttp(http_code, handle.received, request.ToText());
      return base::OkStatus();
    }
    const Time wake_by = http_code == 0 ? std::min(deadline, answer_by) : deadline;
    const auto wait = TimeUntil(wake_by);
    if (wait.count() == 0) {
      return Error(StatusCode::kDeadlineExceeded, "{}: API server at {}: {}", request.ToText(),
                   base::Quote(server_),
                   http_code == 0 ? "no answer in time" : "the stream did not end in time");
    }
    const std::chrono::milliseconds longest = CloseUnused() ? kMaxWait : kIdleTime;
    curl_multi_poll(multi.get(), nullptr, 0, static_cast<int>(std::min(wait, longest).count()),
                    nullptr);
  }
}

}  // namespace berth::kube
