#include "controllers/driverregistrar/driver_registrar.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "controllers/writes.h"

namespace berth::controllers::driverregistrar {

using base::Error;
using base::EventType;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::array<std::string_view, 5> kSwitches = {
    "attachRequired", "podInfoOnMount", "requiresRepublish", "storageCapacity", "seLinuxMount"};
constexpr std::array<std::string_view, 3> kPolicies = {"None", "File", "ReadWriteOnceWithFSType"};
constexpr std::array<std::string_view, 2> kModes = {"Persistent", "Ephemeral"};

template <size_t N>
bool OneOf(const std::array<std::string_view, N>& known, std::string_view word) {
  return std::find(known.begin(), known.end(), word) != known.end();
}

// The parts of "a,b"; empty if one of them is no lifecycle mode.
Json LifecycleModes(std::string_view text) {
  Json modes = Json::array();
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view mode = text.substr(0, comma);
    if (!OneOf(kModes, mode)) return Json::array();
    modes.push_back(std::string(mode));
    if (comma == std::string_view::npos) return modes;
    text.remove_prefix(comma + 1);
  }
}

// The value of spec.FIELD that the manifest's text stands for; null if the field or the text is
// invalid.
Json FieldValue(std::string_view field, const std::string& text) {
  if (OneOf(kSwitches, field)) {
    if (text == "true" || text == "false") return text == "true";
    return nullptr;
  }
  if (field == "fsGroupPolicy") return OneOf(kPolicies, text) ? Json(text) : Json();
  if (field == "volumeLifecycleModes") {
    Json modes = LifecycleModes(text);
    return modes.empty() ? Json() : modes;
  }
  return nullptr;
}

}  // namespace

StatusOr<api::CsiDriver> MakeCsiDriver(const DriverInfo& driver, const Manifest& manifest) {
  Json spec = {{"attachRequired", driver.Has(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME)}};
  for (const auto& [key, text] : manifest) {
    if (!key.starts_with(kManifestPrefix)) continue;
    const std::string field = key.substr(kManifestPrefix.size());
    Json value = FieldValue(field, text);
    if (value.is_null()) {
      return Error(StatusCode::kInvalidArgument,
                   "the manifest of driver '{}' has {} for '{}', which makes no CSIDriver",
                   driver.name, base::Quote(text), key);
    }
    spec[field] = std::move(value);
  }
  api::CsiDriver out;
  out.Set({"apiVersion"}, api::CsiDriver::kInfo.api_version());
  out.Set({"kind"}, std::string(api::CsiDriver::kInfo.kind));
  out.set_name(driver.name);
  out.set_annotation(kMadeFrom, driver.vendor_version);
  out.Set({"spec"}, std::move(spec));
  return out;
}

DriverRegistrar::DriverRegistrar(Context context, DriverConnection& driver, Options options)
    : context_(context),
      driver_(driver),
      options_(options),
      objects_(context.informers.Of<api::CsiDriver>()),
      workers_({.name = "csidriver",
                .workers = 1,
                .retry_start = options_.retry_start,
                .retry_max = options_.retry_max,
                .flight = context.flight},
               [this](const std::string& name) { return Sync(name); }) {
  objects_.AddHandler([this](const auto& change) { workers_.Add(change.key); });
  driver_.OnReady([this] { workers_.AddNow(driver_.info()->name); });
}

DriverRegistrar::~DriverRegistrar() { Stop(); }

void DriverRegistrar::Start() { workers_.Start(); }

void DriverRegistrar::Stop() { workers_.Stop(); }

DriverRegistrar::Outcome DriverRegistrar::Sync(const std::string& name) {
  const auto driver = driver_.info();
  if (driver == nullptr || driver->name != name) return Outcome::Done();
  const StatusOr<csi::v1::GetPluginInfoResponse> plugin = driver_.Call(
      &rpc::CsiClient::GetPluginInfo, csi::v1::GetPluginInfoRequest(), options_.timeout);
  if (!plugin.ok()) return Outcome::Retry(plugin.status());
  const StatusOr<api::CsiDriver> wanted =
      MakeCsiDriver(*driver, {plugin->manifest().begin(), plugin->manifest().end()});
  if (!wanted.ok()) {
    LOG_ERROR("{}", base::ToString(wanted.status()));
    return Outcome::Done();  // the driver's next version is queued again
  }
  const auto present = objects_.Get(name);
  if (present == nullptr) {
    const StatusOr<api::CsiDriver> created = kube::Create(context_.client, *wanted);
    if (!created.ok()) return AfterApi(created.status());
    objects_.Observe(created->json());
    LOG_INFO("CSIDriver {} is created from the driver's manifest", base::Quote(name));
    return Outcome::Done();
  }
  if (!present->has_annotation(kMadeFrom)) return Outcome::Done();
  const Json patch = {
      {"metadata", {{"annotations", {{std::string(kMadeFrom), driver->vendor_version}}}}},
      {"spec", wanted->json()["spec"]}};
  if (!WouldChange(*present, patch)) return Outcome::Done();
  const Status written = PatchAt(context_.client, objects_, *present, patch).status();
  if (written.code() == StatusCode::kInvalidArgument) {
    // Some fields of a CSIDriver are immutable.
    context_.events.Record(present->reference(), EventType::kWarning, "CSIDriverUpdateFailed",
                           fmt::format("the driver's manifest says otherwise, and the API refuses "
                                       "it: {}; delete this object to have it made anew",
                                       base::Message(written)));
    return Outcome::After(options_.retry_max);
  }
  return AfterApi(written);
}

}  // namespace berth::controllers::driverregistrar
