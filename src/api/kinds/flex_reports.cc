#include "api/kinds/flex_reports.h"

#include <algorithm>

#include "base/json.h"
#include "base/utf8.h"

namespace berth::api {
namespace {

using base::Json;

constexpr size_t kMaxReason = 1024;        // bytes of one reason
constexpr size_t kMaxReasons = 48 * 1024;  // bytes of all reasons

}  // namespace

std::string WriteFlexReports(const std::map<std::string, FlexReport>& drivers) {
  Json out = Json::object();
  const size_t each = std::min(kMaxReason, kMaxReasons / std::max<size_t>(drivers.size(), 1));
  for (const auto& [name, report] : drivers) {
    out[name] = {{"ready", report.ready}};
    if (report.removed) out[name]["removed"] = true;
    if (!report.reason.empty()) out[name]["reason"] = base::Shortened(report.reason, each);
  }
  return base::json::Dump(out);
}

std::map<std::string, FlexReport> ReadFlexReports(std::string_view text) {
  std::map<std::string, FlexReport> drivers;
  const auto parsed = base::json::Parse(text);
  if (!parsed.ok() || !parsed->is_object()) return drivers;
  for (const auto& [name, report] : parsed->items()) {
    drivers[name] = {.ready = base::json::Bool(report, {"ready"}),
                     .removed = base::json::Bool(report, {"removed"}),
                     .reason = base::json::String(report, {"reason"})};
  }
  return drivers;
}

}  // namespace berth::api
