#include "apiserver/http_message.h"

#include <cctype>
#include <iterator>

namespace berth::apiserver {
namespace {

constexpr size_t kMaxParameters = 64;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view Phrase(int code) {
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
                 Phrase(response.code), response.content_type);
  fmt::format_to(std::back_inserter(out), "Cache-Control: {}\r\n", response.cache_control);
  for (const auto& [name, value] : response.headers) {
    fmt::format_to(std::back_inserter(out), "{}: {}\r\n", name, value);
  }
  if (close) out += "Connection: close\r\n";
}

}  // namespace

std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    out += c;
  }
  return out;
}

base::StatusOr<Query> Query::Parse(std::string_view raw) {
  Query query;
  while (!raw.empty()) {
    const size_t end = raw.find('&');
    const std::string_view pair = raw.substr(0, end);
    raw = end == std::string_view::npos ? std::string_view() : raw.substr(end + 1);
    if (pair.empty()) continue;
    if (query.parameters_.size() == kMaxParameters) {
      return base::Error(base::StatusCode::kInvalidArgument,
                         "the query has more than {} parameters", kMaxParameters);
    }
    const size_t equals = pair.find('=');
    auto key = PercentDecode(pair.substr(0, equals), true);
    auto value = equals == std::string_view::npos ? std::string()
                                                  : PercentDecode(pair.substr(equals + 1), true);
    if (!key || !value) {
      return base::Error(base::StatusCode::kInvalidArgument, "the query has a bad percent escape");
    }
    query.parameters_.emplace_back(*std::move(key), *std::move(value));
  }
  return query;
}

const std::string& Query::Get(std::string_view key) const {
  static const std::string empty;
  for (const auto& [name, value] : parameters_) {
    if (name == key) return value;
  }
  return empty;
}

std::vector<std::string> Query::All(std::string_view key) const {
  std::vector<std::string> all;
  for (const auto& [name, value] : parameters_) {
    if (name == key) all.push_back(value);
  }
  return all;
}

bool Query::Has(std::string_view key) const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [&](const auto& parameter) { return parameter.first == key; });
}

bool Query::Bool(std::string_view key) const {
  if (!Has(key)) return false;
  const std::string& value = Get(key);
  return !(value == "0" || EqualsIgnoreCase(value, "false"));
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

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
  if (response.code == 304) return out + "\r\n";  // has no body, whatever its head says
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

}  // namespace berth::apiserver
