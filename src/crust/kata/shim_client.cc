#include "crust/kata/shim_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"

namespace berth::crust::kata {
namespace {

namespace json = base::json;
namespace wire = ::crust::v1alpha1;
using base::Error;
using base::Json;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

constexpr size_t kMaxAnswer = 64 * 1024;
constexpr size_t kMaxQuoted = 512;

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

struct Answer {
  std::string text;
  bool too_large = false;
};

// curl ends the transfer if the result is not the number of bytes.
size_t KeepBytes(char* data, size_t size, size_t count, void* into) {
  auto* answer = static_cast<Answer*>(into);
  answer->too_large = answer->text.size() + size * count > kMaxAnswer;
  if (answer->too_large) return 0;
  answer->text.append(data, size * count);
  return size * count;
}

Status InitCurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code == CURLE_OK) return base::OkStatus();
  return Error(StatusCode::kInternal, "libcurl cannot be initialized: {}",
               curl_easy_strerror(code));
}

StatusCode CodeOf(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
      return StatusCode::kNotFound;
    case CURLE_OPERATION_TIMEDOUT:
      return StatusCode::kDeadlineExceeded;
    default:
      return StatusCode::kUnavailable;
  }
}

// Escapes every byte but letters and digits.
std::string Escape(std::string_view text) {
  std::string out;
  for (const unsigned char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    out += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return out;
}

// Sends a request and returns the body of an answer with code 200. Without a `body` it is a GET.
StatusOr<std::string> Send(const std::string& socket, const std::string& target,
                           const std::string* body, milliseconds timeout) {
  RETURN_IF_ERROR(InitCurl());
  const std::unique_ptr<CURL, CurlDeleter> curl(curl_easy_init());
  if (curl == nullptr) return Error(StatusCode::kInternal, "curl_easy_init failed");
  const std::string url = "http://shim" + target;
  Answer answer;
  std::unique_ptr<curl_slist, CurlDeleter> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"));
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(curl.get(), CURLOPT_UNIX_SOCKET_PATH, socket.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, KeepBytes);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
  if (body != nullptr) {
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body->c_str());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body->size()));
  }
  const CURLcode code = curl_easy_perform(curl.get());
  if (answer.too_large) {
    return Error(StatusCode::kInternal, "Kata's shim answered with more than {} bytes", kMaxAnswer);
  }
  if (code != CURLE_OK) {
    return Error(CodeOf(code), "ask Kata's shim at {}: {}", Quote(socket),
                 curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status == 200) return std::move(answer.text);
  const std::string said = Quote(answer.text.substr(0, kMaxQuoted));
  const bool unimplemented = answer.text.find("not implemented") != std::string::npos ||
                             answer.text.find("nimplemented") != std::string::npos ||
                             answer.text.find("UNIMPLEMENTED") != std::string::npos;
  return Error(unimplemented ? StatusCode::kUnimplemented : StatusCode::kUnavailable,
               "Kata's shim answered with {}: {}", status, said);
}

// A number that is not there is 0. INTERNAL: it is no number from 0 to 2^63 - 1.
StatusOr<int64_t> ReadNumber(const Json& usage, std::string_view name) {
  const Json* member = json::Find(usage, {name});
  if (member == nullptr) return 0;
  if (member->is_number_unsigned()) {
    const auto number = member->get<uint64_t>();
    if (number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return static_cast<int64_t>(number);
    }
  }
  return Error(StatusCode::kInternal,
               "Kata's shim answered with a '{}' that is no number of bytes "
               "or inodes",
               name);
}

StatusOr<wire::VolumeUsage> ReadUsage(const Json& member) {
  wire::VolumeUsage usage;
  ASSIGN_OR_RETURN(const int64_t total, ReadNumber(member, "total"));
  ASSIGN_OR_RETURN(const int64_t used, ReadNumber(member, "used"));
  ASSIGN_OR_RETURN(const int64_t available, ReadNumber(member, "available"));
  ASSIGN_OR_RETURN(const int64_t unit, ReadNumber(member, "unit"));
  if (unit != wire::VolumeUsage::BYTES && unit != wire::VolumeUsage::INODES) {
    return Error(StatusCode::kInternal, "Kata's shim answered with numbers of unknown unit {}",
                 unit);
  }
  if (used > total || available > total - used) {
    return Error(StatusCode::kInternal,
                 "Kata's shim answered with {} used and {} available of {} in total", used,
                 available, total);
  }
  usage.set_total(total);
  usage.set_used(used);
  usage.set_available(available);
  usage.set_unit(static_cast<wire::VolumeUsage::Unit>(unit));
  return usage;
}

// Returns the text's printable ASCII, not longer than a message should be.
std::string ReadWords(std::string text) {
  text.resize(std::min(text.size(), kMaxQuoted));
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, ' ');
  return text;
}

}  // namespace

StatusOr<wire::RuntimeGetVolumeStatsResponse> ParseStats(std::string_view text) {
  const auto parsed = json::Parse(text, {.max_bytes = kMaxAnswer, .max_depth = 8});
  if (!parsed.ok() || !parsed->is_object()) {
    return Error(StatusCode::kInternal, "Kata's shim answered with what are no numbers: {}",
                 Quote(text.substr(0, kMaxQuoted)));
  }
  wire::RuntimeGetVolumeStatsResponse response;
  bool bytes = false;
  bool inodes = false;
  for (const Json& member : json::Array(*parsed, {"usage"})) {
    ASSIGN_OR_RETURN(wire::VolumeUsage usage, ReadUsage(member));
    bool& seen = usage.unit() == wire::VolumeUsage::BYTES ? bytes : inodes;
    if (std::exchange(seen, true)) {
      return Error(StatusCode::kInternal, "Kata's shim answered with the same unit twice");
    }
    *response.add_usage() = std::move(usage);
  }
  if (!bytes) return Error(StatusCode::kInternal, "Kata's shim answered without numbers of bytes");
  wire::VolumeCondition& condition = *response.mutable_volume_condition();
  condition.set_abnormal(json::Bool(*parsed, {"volume_condition", "abnormal"}));
  condition.set_message(ReadWords(json::String(*parsed, {"volume_condition", "message"})));
  return response;
}

StatusOr<wire::RuntimeGetVolumeStatsResponse> AskForStats(const std::string& socket,
                                                          const std::string& device,
                                                          milliseconds timeout) {
  // The shim removes one escaping more than HTTP asks for.
  const std::string target = "/direct-volume/stats?path=" + Escape(Escape(device));
  ASSIGN_OR_RETURN(const std::string text, Send(socket, target, nullptr, timeout));
  return ParseStats(text);
}

Status AskToGrow(const std::string& socket, const std::string& device, int64_t bytes,
                 milliseconds timeout) {
  const std::string body = json::Dump(Json{{"VolumePath", device}, {"Size", bytes}});
  RETURN_IF_ERROR(base::FaultPoint<"crust.kata_grow.before">());
  RETURN_IF_ERROR(Send(socket, "/direct-volume/resize", &body, timeout));
  return base::FaultPoint<"crust.kata_grow.after">();
}

}  // namespace berth::crust::kata
