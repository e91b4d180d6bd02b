// The volume plugins of a process: those that it was built with, and those that probers find.
//
//   ListPlugins gives a list ──▶ new ones are initialised, several at once ──▶ Find gives them
//                                           │ failed: reported, tried again with a backoff
//                                           ▼
//                                Find gives the failure, never an older plugin of that name
//
// A look-up that no built-in plugin answers first asks the probers for changes, which is cheap
// while nothing has changed. The registry also takes up changes without a look-up. If a list cannot
// be read, the last good one stays. A prober that does not start is tried again with a backoff,
// while all other plugins work. Plugins are shared, so that a running call keeps its plugin after
// the list has dropped it. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/workers/keyed_workers.h"
#include "volume/plugin_prober.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class PluginRegistry {
 public:
  struct Options {
    int parallel_inits = 8;
    // Called on threads of the registry: after each Init of a plugin that a prober found, with its
    // result; with the prober's state for a plugin that is listed only for the volumes that it set
    // up (PluginProber::GetState); and with NOT_FOUND when a plugin is gone. Volumes that waited
    // for the plugin should then be tried again.
    std::function<void(const std::string& plugin, const base::Status& state)> on_state = nullptr;
    // Called on threads of the registry when a prober did not start, or could not list its plugins.
    std::function<void(const base::Status& why)> on_probe_failed = nullptr;
  };

  PluginRegistry(std::vector<std::shared_ptr<VolumePlugin>> fixed,
                 std::vector<std::unique_ptr<PluginProber>> probers, Options options);
  ~PluginRegistry();
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;

  // Initialises the built-in plugins, whose failure it returns, and the probers, and takes their
  // first lists. Plugins of the lists are initialised in the background, also after this returns.
  base::Status Init();
  // No Init runs after this. Idempotent.
  void Stop();

  // Finds the plugin for a volume. NOT_FOUND: there is none; FAILED_PRECONDITION: it is being
  // initialised, and on_state tells when to ask again; UNAVAILABLE: the plugin does not start, or
  // the prober to which the volume belongs does not start; the message gives the reason.
  base::StatusOr<std::shared_ptr<VolumePlugin>> Find(const VolumeSpec& spec);

  // Finds a plugin by its name, for volumes that it set up earlier: ready, not ready or gone.
  // nullptr: there is no plugin of that name.
  std::shared_ptr<VolumePlugin> FindByName(std::string_view name);

  // All plugins that exist now, ready or not.
  PluginList ListPlugins();

 private:
  struct Entry {
    std::shared_ptr<VolumePlugin> plugin;
    base::Status state;     // the error that Find returns; OK: the plugin is ready
    base::Status standing;  // the state that its prober reports
  };
  struct Probed {
    std::unique_ptr<PluginProber> prober;
    PluginList last;
    // The result of its Init; OK once it has started.
    base::Status start = base::Error(base::StatusCode::kUnavailable, "it was not started yet");
  };

  // Asks the probers for changes. A failure leaves the last lists as they are. A worker reports it,
  // because the calling thread may hold locks that a callback needs.
  base::Status RefreshLists();
  // Starts the probers that have not started; returns a failure of one of them.
  base::Status StartProbers();
  // Updates `found_` from the last lists.
  void UpdatePlugins() ABSL_EXCLUSIVE_LOCKS_REQUIRED(probing_);
  base::KeyedWorkers::Outcome CheckProbers();
  base::KeyedWorkers::Outcome InitByName(const std::string& name);
  base::Status InitPlugin(VolumePlugin& plugin) const;
  void ReportState(const std::string& name, const base::Status& state) const;
  std::shared_ptr<VolumePlugin> FindFixed(std::string_view name) const;

  const std::vector<std::shared_ptr<VolumePlugin>> fixed_;
  const Options options_;
  base::Mutex probing_;  // held while probers are asked; taken before mutex_
  std::vector<Probed> probed_ ABSL_GUARDED_BY(probing_);
  base::Mutex mutex_;
  std::map<std::string, Entry, std::less<>> found_ ABSL_GUARDED_BY(mutex_);
  base::KeyedWorkers inits_;
};

}  // namespace berth::volume
