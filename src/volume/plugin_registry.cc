#include "volume/plugin_registry.h"

#include <set>

#include "base/log.h"

namespace berth::volume {

using base::KeyedWorkers;
using base::MutexLock;
using base::StatusCode;

namespace {

// The workers' key that stands for the probers; no plugin has such a name.
constexpr char kProbe[] = "the probers";

}  // namespace

PluginRegistry::PluginRegistry(std::vector<std::shared_ptr<VolumePlugin>> fixed,
                               std::vector<std::unique_ptr<PluginProber>> probers, Options options)
    : fixed_(std::move(fixed)),
      options_(std::move(options)),
      inits_({.name = "plugins", .workers = options_.parallel_inits},
             [this](const std::string& key) {
               return key == kProbe ? CheckProbers() : InitByName(key);
             }) {
  for (auto& prober : probers) {
    prober->SetOnChange([this] { inits_.AddNow(kProbe); });
    probed_.push_back({.prober = std::move(prober), .last = {}});
  }
}

PluginRegistry::~PluginRegistry() { Stop(); }

Status PluginRegistry::Init() {
  for (const auto& plugin : fixed_) {
    RETURN_IF_ERROR_WITH(plugin->Init(), fmt::format("volume plugin '{}'", plugin->name()));
  }
  if (!StartProbers().ok()) inits_.Add(kProbe);
  RefreshLists().IgnoreError();
  inits_.Start();
  return base::OkStatus();
}

void PluginRegistry::Stop() { inits_.Stop(); }

StatusOr<std::shared_ptr<VolumePlugin>> PluginRegistry::Find(const VolumeSpec& spec) {
  for (const auto& plugin : fixed_) {
    if (plugin->Supports(spec)) return plugin;
  }
  RefreshLists().IgnoreError();
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
    const std::string why = probed.prober->ExplainMissing(spec);
    if (why.empty()) continue;
    if (probed.start.ok()) return base::Error(StatusCode::kNotFound, "{}", why);
    return base::Error(StatusCode::kUnavailable,
                       "the prober that finds its volume plugin does not start: {}",
                       base::ToString(probed.start));
  }
  const std::string what = spec.pv != nullptr
                               ? fmt::format("the source of volume '{}'", spec.pv->name())
                               : fmt::format("volumes of type '{}'", spec.pod_volume.source_type());
  return base::Error(StatusCode::kNotFound, "there is no volume plugin for {}", what);
}

std::shared_ptr<VolumePlugin> PluginRegistry::FindByName(std::string_view name) {
  if (auto plugin = FindFixed(name); plugin != nullptr) return plugin;
  RefreshLists().IgnoreError();
  {
    MutexLock lock(mutex_);
    if (const auto found = found_.find(name); found != found_.end()) return found->second.plugin;
  }
  MutexLock lock(probing_);
  for (const Probed& probed : probed_) {
    if (!probed.start.ok()) continue;
    if (auto absent = probed.prober->FindAbsent(name); absent != nullptr) return absent;
  }
  return nullptr;
}

PluginList PluginRegistry::ListPlugins() {
  RefreshLists().IgnoreError();
  PluginList all = fixed_;
  MutexLock lock(mutex_);
  for (const auto& [name, entry] : found_) all.push_back(entry.plugin);
  return all;
}

std::shared_ptr<VolumePlugin> PluginRegistry::FindFixed(std::string_view name) const {
  for (const auto& plugin : fixed_) {
    if (plugin->name() == name) return plugin;
  }
  return nullptr;
}

Status PluginRegistry::StartProbers() {
  Status status;
  MutexLock lock(probing_);
  for (Probed& probed : probed_) {
    if (probed.start.ok()) continue;
    probed.start = probed.prober->Init();
    if (!probed.start.ok()) status = probed.start;
  }
  return status;
}

Status PluginRegistry::RefreshLists() {
  Status status;
  MutexLock lock(probing_);
  bool news = false;
  for (Probed& probed : probed_) {
    if (!probed.start.ok()) continue;
    auto list = probed.prober->ListPlugins();
    if (!list.ok()) {
      status = list.status();
    } else if (list->has_value()) {
      probed.last = **std::move(list);
      news = true;
    }
  }
  if (news) UpdatePlugins();
  if (!status.ok()) inits_.Add(kProbe);
  return status;
}

void PluginRegistry::UpdatePlugins() {
  MutexLock lock(mutex_);
  std::set<std::string> gone;
  for (const auto& [name, entry] : found_) gone.insert(name);
  for (const Probed& probed : probed_) {
    for (const auto& plugin : probed.last) {
      const std::string name(plugin->name());
      gone.erase(name);
      Status standing = probed.prober->GetState(name);
      Entry& entry = found_[name];
      if (entry.plugin == plugin && entry.standing == standing) continue;
      if (entry.plugin != plugin) {
        entry = {.plugin = plugin,
                 .state = base::Error(StatusCode::kFailedPrecondition,
                                      "volume plugin '{}' is being initialised", name),
                 .standing = {}};
      }
      entry.standing = std::move(standing);
      inits_.AddNow(name);
    }
  }
  for (const std::string& name : gone) {
    found_.erase(name);
    inits_.AddNow(name);
  }
}

KeyedWorkers::Outcome PluginRegistry::CheckProbers() {
  const Status started = StartProbers();
  const Status looked = RefreshLists();
  const Status& status = started.ok() ? looked : started;
  if (!status.ok() && options_.on_probe_failed) options_.on_probe_failed(status);
  return KeyedWorkers::Outcome::From(status);
}

KeyedWorkers::Outcome PluginRegistry::InitByName(const std::string& name) {
  std::shared_ptr<VolumePlugin> plugin;
  Status standing;
  {
    MutexLock lock(mutex_);
    const auto found = found_.find(name);
    if (found != found_.end()) {
      plugin = found->second.plugin;
      standing = found->second.standing;
    }
  }
  if (plugin == nullptr) {
    ReportState(name, base::Error(StatusCode::kNotFound, "volume plugin '{}' was removed", name));
    return KeyedWorkers::Outcome::Done();
  }
  // A plugin that is listed only for the volumes that it set up is not initialised. Find returns
  // it, and its own errors say why it sets up no volume.
  const Status state = standing.ok() ? InitPlugin(*plugin) : base::OkStatus();
  {
    MutexLock lock(mutex_);
    const auto found = found_.find(name);
    // The plugin was replaced or removed meanwhile. This result does not apply to its successor,
    // which is initialised by another run.
    if (found == found_.end() || found->second.plugin != plugin) {
      return KeyedWorkers::Outcome::Done();
    }
    found->second.state = state;
  }
  ReportState(name, standing.ok() ? state : standing);
  // A retry would not help, because the name stays taken.
  if (state.code() == StatusCode::kAlreadyExists) return KeyedWorkers::Outcome::Done();
  return KeyedWorkers::Outcome::From(state);
}

Status PluginRegistry::InitPlugin(VolumePlugin& plugin) const {
  if (FindFixed(plugin.name()) != nullptr) {
    return base::Error(StatusCode::kAlreadyExists, "'{}' is the name of a built-in volume plugin",
                       plugin.name());
  }
  const Status inited = plugin.Init();
  if (inited.ok()) return inited;
  return base::Error(StatusCode::kUnavailable, "volume plugin '{}' does not start: {}",
                     plugin.name(), base::ToString(inited));
}

void PluginRegistry::ReportState(const std::string& name, const Status& state) const {
  if (options_.on_state) options_.on_state(name, state);
}

}  // namespace berth::volume
