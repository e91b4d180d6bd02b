#include "volume/plugin_registry.h"

#include <set>

#include "base/log.h"

namespace berth::volume {

using base::KeyedWorkers;
using base::MutexLock;
using base::StatusCode;

namespace {

// The key of the workers that stands for a look at the probers; no plugin has an empty name.
constexpr char kProbe[] = "";

}  // namespace

PluginRegistry::PluginRegistry(std::vector<std::shared_ptr<VolumePlugin>> fixed,
                               std::vector<std::unique_ptr<PluginProber>> probers, Options options)
    : fixed_(std::move(fixed)),
      options_(std::move(options)),
      inits_({.name = "plugins", .workers = options_.parallel_inits},
             [this](const std::string& key) {
               if (key != kProbe) return InitNamed(key);
               Refresh();
               return KeyedWorkers::Outcome::Done();
             }) {
  for (auto& prober : probers) {
    prober->OnNews([this] { inits_.AddNow(kProbe); });
    probed_.push_back({.prober = std::move(prober), .last = {}});
  }
}

PluginRegistry::~PluginRegistry() { Stop(); }

Status PluginRegistry::Init() {
  for (const auto& plugin : fixed_) {
    RETURN_IF_ERROR_WITH(plugin->Init(), fmt::format("volume plugin '{}'", plugin->name()));
  }
  {
    MutexLock lock(probing_);
    for (const Probed& probed : probed_) RETURN_IF_ERROR(probed.prober->Init());
  }
  Refresh();
  inits_.Start();
  return base::OkStatus();
}

void PluginRegistry::Stop() { inits_.Stop(); }

StatusOr<std::shared_ptr<VolumePlugin>> PluginRegistry::Find(const VolumeSpec& spec) {
  for (const auto& plugin : fixed_) {
    if (plugin->Supports(spec)) return plugin;
  }
  Refresh();
  {
    MutexLock lock(mutex_);
    for (const auto& [name, entry] : found_) {
      if (!entry.plugin->Supports(spec)) continue;
      RETURN_IF_ERROR(entry.state);
      return entry.plugin;
    }
  }
  MutexLock lock(probing_);
  for (const Probed& probed : probed_) {
    if (const std::string why = probed.prober->WhyNone(spec); !why.empty()) {
      return base::Error(StatusCode::kNotFound, "{}", why);
    }
  }
  const std::string what = spec.pv != nullptr
                               ? fmt::format("the source of volume '{}'", spec.pv->name())
                               : fmt::format("volumes of type '{}'", spec.pod_volume.source_type());
  return base::Error(StatusCode::kNotFound, "there is no volume plugin for {}", what);
}

std::shared_ptr<VolumePlugin> PluginRegistry::Named(std::string_view name) {
  if (auto plugin = Fixed(name); plugin != nullptr) return plugin;
  Refresh();
  MutexLock lock(mutex_);
  const auto found = found_.find(name);
  return found == found_.end() ? nullptr : found->second.plugin;
}

PluginList PluginRegistry::All() {
  Refresh();
  PluginList all = fixed_;
  MutexLock lock(mutex_);
  for (const auto& [name, entry] : found_) all.push_back(entry.plugin);
  return all;
}

std::shared_ptr<VolumePlugin> PluginRegistry::Fixed(std::string_view name) const {
  for (const auto& plugin : fixed_) {
    if (plugin->name() == name) return plugin;
  }
  return nullptr;
}

void PluginRegistry::Refresh() {
  std::vector<Status> failures;
  std::vector<Report> reports;
  {
    MutexLock lock(probing_);
    bool news = false;
    for (Probed& probed : probed_) {
      auto list = probed.prober->Probe();
      if (!list.ok()) {
        failures.push_back(list.status());
      } else if (list->has_value()) {
        probed.last = **std::move(list);
        news = true;
      }
    }
    if (news) reports = TakeLists();
  }
  for (const Status& failure : failures) {
    LOG_WARNING("volume plugins: {}", base::ToString(failure));
    if (options_.on_probe_failed) options_.on_probe_failed(failure);
  }
  if (!options_.on_state) return;
  for (const Report& report : reports) options_.on_state(report.plugin, report.state);
}

std::vector<PluginRegistry::Report> PluginRegistry::TakeLists() {
  std::vector<Report> reports;
  std::set<std::string> gone;
  MutexLock lock(mutex_);
  for (const auto& [name, entry] : found_) gone.insert(name);
  for (const Probed& probed : probed_) {
    for (const auto& plugin : probed.last) {
      const std::string name(plugin->name());
      if (Fixed(name) != nullptr) {
        reports.push_back(
            {name, base::Error(StatusCode::kAlreadyExists,
                               "'{}' is the name of a built-in volume plugin", name)});
        continue;
      }
      gone.erase(name);
      Entry& entry = found_[name];
      if (entry.plugin == plugin) continue;
      entry = {.plugin = plugin,
               .state = base::Error(StatusCode::kUnavailable,
                                    "volume plugin '{}' is being initialised", name)};
      inits_.AddNow(name);
    }
  }
  for (const std::string& name : gone) {
    found_.erase(name);
    reports.push_back({name, base::Error(StatusCode::kNotFound, "'{}' was removed", name)});
  }
  return reports;
}

KeyedWorkers::Outcome PluginRegistry::InitNamed(const std::string& name) {
  std::shared_ptr<VolumePlugin> plugin;
  {
    MutexLock lock(mutex_);
    const auto found = found_.find(name);
    if (found == found_.end()) return KeyedWorkers::Outcome::Done();
    plugin = found->second.plugin;
  }
  const Status inited = plugin->Init();
  const Status state =
      inited.ok() ? inited
                  : base::Error(StatusCode::kUnavailable, "volume plugin '{}' does not start: {}",
                                name, base::ToString(inited));
  {
    MutexLock lock(mutex_);
    const auto found = found_.find(name);
    // Replaced or removed meanwhile: this says nothing of what is there now, whose turn comes.
    if (found == found_.end() || found->second.plugin != plugin) {
      return KeyedWorkers::Outcome::Done();
    }
    found->second.state = state;
  }
  if (options_.on_state) options_.on_state(name, inited);
  return KeyedWorkers::Outcome::From(state);
}

}  // namespace berth::volume
