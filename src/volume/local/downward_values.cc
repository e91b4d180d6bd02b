#include "volume/local/downward_values.h"

#include "api/kinds/kinds.h"
#include "api/quantity.h"
#include "base/log.h"

namespace berth::volume {
namespace {

using base::Json;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

// Go's %q: the kubelet writes the values of label and annotation files in this form.
std::string QuoteLikeGo(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    constexpr std::string_view kRaw = "\a\b\f\n\r\t\v\\\"";
    constexpr std::string_view kLetters = "abfnrtv\\\"";
    const auto byte = static_cast<unsigned char>(c);
    if (const size_t at = kRaw.find(c); at != std::string_view::npos) {
      out += '\\';
      out += kLetters[at];
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string FormatMap(const api::Labels& map) {
  std::string out;
  for (const auto& [key, value] : map) {
    out += fmt::format("{}{}={}", out.empty() ? "" : "\n", key, QuoteLikeGo(value));
  }
  return out;
}

// The KEY of "metadata.labels['KEY']" for prefix "metadata.labels".
std::optional<std::string> ParseSubscript(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return {};
  path.remove_prefix(prefix.size());
  if (path.size() < 4 || !path.starts_with("['") || !path.ends_with("']")) return {};
  return std::string(path.substr(2, path.size() - 4));
}

StatusOr<std::string> ReadField(const api::Pod& pod, const std::string& path) {
  if (path == "metadata.name") return pod.name();
  if (path == "metadata.namespace") return pod.ns();
  if (path == "metadata.uid") return pod.uid();
  if (path == "metadata.labels") return FormatMap(pod.labels());
  if (path == "metadata.annotations") return FormatMap(pod.annotations());
  if (const auto key = ParseSubscript(path, "metadata.labels")) return pod.label(*key);
  if (const auto key = ParseSubscript(path, "metadata.annotations")) return pod.annotation(*key);
  return base::Error(StatusCode::kInvalidArgument,
                     "downwardAPI: unsupported fieldPath {} in a volume", Quote(path));
}

StatusOr<api::Container> FindContainer(const api::Pod& pod, const std::string& name) {
  for (const auto& list : {pod.containers(), pod.init_containers()}) {
    for (const api::Container& container : list) {
      if (container.name() == name) return container;
    }
  }
  return base::Error(StatusCode::kNotFound, "downwardAPI: container {} not found", Quote(name));
}

// The quantity in the container's spec, or its default.
StatusOr<std::string> ReadQuantity(Host& host, const api::Container& container,
                                   const std::string& scope, const std::string& resource) {
  const std::string limit = container.String({"resources", "limits", resource});
  if (scope == "requests") {
    // The API's default for a request is the limit.
    const std::string request = container.String({"resources", "requests", resource});
    if (!request.empty()) return request;
    return limit.empty() ? "0" : limit;
  }
  if (!limit.empty()) return limit;
  ASSIGN_OR_RETURN(const Json node, host.GetObject(api::kinds::kNode, "", host.node_name()));
  return base::json::String(node, {"status", "allocatable", resource}, "0");
}

StatusOr<std::string> ReadResource(Host& host, const api::Pod& pod, const Json& reference) {
  const std::string field = base::json::String(reference, {"resource"});
  const size_t dot = field.find('.');
  const std::string scope = field.substr(0, dot);
  const std::string resource = dot == std::string::npos ? "" : field.substr(dot + 1);
  if ((scope != "limits" && scope != "requests") || resource.empty()) {
    return base::Error(StatusCode::kInvalidArgument, "downwardAPI: unsupported resource {}",
                       Quote(field));
  }
  ASSIGN_OR_RETURN(const api::Container container,
                   FindContainer(pod, base::json::String(reference, {"containerName"})));
  ASSIGN_OR_RETURN(const std::string text, ReadQuantity(host, container, scope, resource));
  auto quantity = api::Quantity::Parse(text);
  RETURN_IF_ERROR_WITH(quantity, fmt::format("downwardAPI: {}", field));
  std::string divisor_text = base::json::String(reference, {"divisor"}, "1");
  if (divisor_text == "0" || divisor_text.empty()) divisor_text = "1";
  auto divisor = api::Quantity::Parse(divisor_text);
  RETURN_IF_ERROR_WITH(divisor, "downwardAPI: divisor");
  // CPU is counted in thousandths, all else in whole units; both round up.
  const bool cpu = resource == "cpu";
  const int64_t amount = cpu ? quantity->milli_value() : quantity->value();
  const int64_t unit = cpu ? divisor->milli_value() : divisor->value();
  if (unit <= 0 || amount < 0) {
    return base::Error(StatusCode::kInvalidArgument, "downwardAPI: {} divided by {}", text,
                       divisor_text);
  }
  return fmt::format("{}", amount / unit + (amount % unit != 0 ? 1 : 0));
}

}  // namespace

StatusOr<std::string> ReadDownwardValue(Host& host, const api::Pod& pod, const Json& item) {
  if (const Json* field = base::json::Find(item, {"fieldRef"})) {
    return ReadField(pod, base::json::String(*field, {"fieldPath"}));
  }
  if (const Json* reference = base::json::Find(item, {"resourceFieldRef"})) {
    return ReadResource(host, pod, *reference);
  }
  return base::Error(StatusCode::kInvalidArgument,
                     "downwardAPI: item {} has neither fieldRef nor resourceFieldRef",
                     Quote(base::json::String(item, {"path"})));
}

}  // namespace berth::volume
