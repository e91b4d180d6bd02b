#include "http/message.h"

#include <iterator>

namespace berth::http {
namespace {

// The reason phrase of a status line (RFC 9112, section 4).
std::string_view ReasonPhrase(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 301:
      return "Moved Permanently";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 413:
      return "Request Entity Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Entity";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

void AppendHead(std::string& out, const Response& response, bool close) {
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", response.code,
                 ReasonPhrase(response.code), response.content_type);
  if (!response.cache_control.empty()) {
    fmt::format_to(std::back_inserter(out), "Cache-Control: {}\r\n", response.cache_control);
  }
  for (const auto& [name, value] : response.headers) {
    fmt::format_to(std::back_inserter(out), "{}: {}\r\n", name, value);
  }
  if (close) out += "Connection: close\r\n";
}

}  // namespace

std::string_view Request::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (EqualsIgnoreCase(key, name)) return value;
  }
  return {};
}

std::string_view Request::raw_path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view Request::raw_query() const {
  const size_t mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

std::string EncodeResponse(const Response& response, bool close, bool head_only) {
  std::string out;
  out.reserve(256 + (head_only ? 0 : response.body.size()));
  AppendHead(out, response, close);
  if (response.code == 304) return out + "\r\n";  // a 304 never has a body
  fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n\r\n", response.body.size());
  if (!head_only) out += response.body;
  return out;
}

std::string EncodeStreamHead(const Response& head, bool close) {
  std::string out;
  AppendHead(out, head, close);
  out += "Transfer-Encoding: chunked\r\n\r\n";
  return out;
}

std::string EncodeChunk(std::string_view data) {
  if (data.empty()) return {};
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace berth::http
