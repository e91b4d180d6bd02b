#include "api/migration/ebs_volume_id.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace berth::api::migration {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kScheme = "aws://";

enum class UrlPart { kHost, kOther };

bool IsAlnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool IsIn(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

bool IsHostChar(char c) {
  return static_cast<unsigned char>(c) >= 0x80 || IsAlnum(c) || IsIn(c, "-_.~!$&'()*+,;=:[]<>\"");
}

// Decodes percent escapes, "%00" as well, because Go's net/url does so. In a host they may stand
// for bytes beyond ASCII only, and for '%'.
StatusOr<std::string> Unescape(std::string_view text, UrlPart part) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (part == UrlPart::kHost && !IsHostChar(text[i])) {
        return Error(StatusCode::kInvalidArgument, "invalid character {:?} in host name",
                     text.substr(i, 1));
      }
      out += text[i];
      continue;
    }
    const std::string_view escape = text.substr(i, 3);
    const std::optional<char> byte = base::DecodePercentEscape(escape);
    const bool ascii = byte && static_cast<unsigned char>(*byte) < 0x80;
    if (!byte || (part == UrlPart::kHost && ascii && *byte != '%')) {
      return Error(StatusCode::kInvalidArgument, "invalid URL escape {:?}", escape);
    }
    out += *byte;
    i += 2;
  }
  return out;
}

Status CheckPort(std::string_view port) {
  const bool valid =
      port.empty() || (port.front() == ':' && std::ranges::all_of(port.substr(1), [](char c) {
                         return c >= '0' && c <= '9';
                       }));
  if (valid) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "invalid port {:?} after host", port);
}

Status CheckHost(std::string_view host) {
  if (host.find('[') != std::string_view::npos) {
    const size_t end = host.rfind(']');
    if (end == std::string_view::npos) {
      return Error(StatusCode::kInvalidArgument, "missing ']' in host");
    }
    return CheckPort(host.substr(end + 1));
  }
  if (const size_t colon = host.find(':'); colon != std::string_view::npos) {
    RETURN_IF_ERROR(CheckPort(host.substr(colon)));
  }
  return Unescape(host, UrlPart::kHost).status();
}

Status CheckAuthority(std::string_view authority) {
  const size_t at = authority.rfind('@');
  if (at == std::string_view::npos) return CheckHost(authority);
  RETURN_IF_ERROR(CheckHost(authority.substr(at + 1)));
  const std::string_view user = authority.substr(0, at);
  if (!std::ranges::all_of(user,
                           [](char c) { return IsAlnum(c) || IsIn(c, "-._:~!$&'()*+,;=%@"); })) {
    return Error(StatusCode::kInvalidArgument, "net/url: invalid userinfo");
  }
  return Unescape(user, UrlPart::kOther).status();
}

// The decoded path of `url`, which has neither scheme nor fragment.
StatusOr<std::string> ReadPath(std::string_view url) {
  if (std::ranges::any_of(url, [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; })) {
    return Error(StatusCode::kInvalidArgument, "net/url: invalid control character in URL");
  }
  url = url.substr(0, url.find('?'));
  const size_t slash = std::min(url.find('/'), url.size());
  RETURN_IF_ERROR(CheckAuthority(url.substr(0, slash)));
  return Unescape(url.substr(slash), UrlPart::kOther);
}

}  // namespace

StatusOr<std::string> ParseEbsVolumeId(const std::string& name) {
  constexpr const char* kContext = "failed to translate Kubernetes ID to EBS Volume ID";
  if (!name.starts_with(kScheme)) return name;
  const std::string_view whole = name;
  const std::string_view url = whole.substr(0, whole.find('#'));
  const auto fail = [&](std::string_view parsed, const Status& why) {
    return Error(StatusCode::kInvalidArgument, "{} Invalid disk name ({}): parse {:?}: {}",
                 kContext, name, parsed, base::Message(why));
  };
  const StatusOr<std::string> path = ReadPath(url.substr(kScheme.size()));
  if (!path.ok()) return fail(url, path.status());
  if (const auto fragment = Unescape(whole.substr(url.size()), UrlPart::kOther); !fragment.ok()) {
    return fail(whole, fragment.status());
  }
  std::string id = *path;
  id.erase(0, id.find_first_not_of('/'));
  id.erase(id.find_last_not_of('/') + 1);
  if (!id.starts_with("vol-") || id.find('/') != std::string::npos) {
    return Error(StatusCode::kInvalidArgument, "{} Invalid format for AWS volume ({})", kContext,
                 name);
  }
  return id;
}

}  // namespace berth::api::migration
