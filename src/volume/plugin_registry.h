// The volume plugins of a process: those that it was built with, and those that probers find.
//
//   Probe gives a list ──▶ new ones are initialised, several at once ──▶ Find gives them
//                                     │ failed: reported, tried again with a backoff
//                                     ▼
//                          Find gives the failure, never an older plugin of that name
//
// A look-up that no built-in plugin answers asks the probers first, which costs nothing while
// nothing changed; and their news are taken without one. A list that could not be read leaves the
// last good one in place, and a prober that does not start is tried again with a backoff, while all
// else goes on. Plugins are shared, so that a call which runs outlives the plugin's place
// in the list. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "base/status.h"
#include "volume/plugin_prober.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class PluginRegistry {
 public:
  struct Options {
    int parallel_inits = 8;
    // After each Init of a plugin that a prober found, with what came of it; with what the prober
    // says of one that is listed for what it set up alone (PluginProber::StateOf); and with
    // NOT_FOUND when one is there no more; on threads of the registry. Volumes that waited for it
    // want another look then.
    std::function<void(const std::string& plugin, const base::Status& state)> on_state = nullptr;
    // A prober does not start, or could not look.
    std::function<void(const base::Status& why)> on_probe_failed = nullptr;
  };

  PluginRegistry(std::vector<std::shared_ptr<VolumePlugin>> fixed,
                 std::vector<std::unique_ptr<PluginProber>> probers, Options options);
  ~PluginRegistry();
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;

  // Initialises what is fixed, whose failure it gives, and the probers, and takes their first
  // lists. What a prober lists is initialised meanwhile, after this.
  base::Status Init();
  // No Init runs afterwards. Idempotent.
  void Stop();

  // The plugin for a volume. NOT_FOUND: none; FAILED_PRECONDITION: it is being initialised, and
  // on_state tells when to ask again; UNAVAILABLE: it does not start, or the prober whose concern
  // the volume is does not, with the reason.
  base::StatusOr<std::shared_ptr<VolumePlugin>> Find(const VolumeSpec& spec);

  // By its name, ready or not, or gone; null: no plugin is called so. For what it set up earlier.
  std::shared_ptr<VolumePlugin> Named(std::string_view name);

  // Those that are there now, ready or not.
  PluginList All();

 private:
  struct Entry {
    std::shared_ptr<VolumePlugin> plugin;
    base::Status state;     // what Find says of it
    base::Status standing;  // what its prober says of it
  };
  struct Probed {
    std::unique_ptr<PluginProber> prober;
    PluginList last;
    // Why it does not start; OK once it did.
    base::Status start = base::Error(base::StatusCode::kUnavailable, "it was not started yet");
  };

  // A failure leaves the last lists, and is told by a worker: no callback comes of it on this
  // thread, which may hold locks of its own.
  base::Status Refresh();
  // Of the probers that have not started; the failure of one.
  base::Status StartProbers();
  // Makes `found_` of the last lists.
  void TakeLists() ABSL_EXCLUSIVE_LOCKS_REQUIRED(probing_);
  base::KeyedWorkers::Outcome LookAtProbers();
  base::KeyedWorkers::Outcome InitNamed(const std::string& name);
  base::Status InitOf(VolumePlugin& plugin) const;
  void Tell(const std::string& name, const base::Status& state) const;
  std::shared_ptr<VolumePlugin> Fixed(std::string_view name) const;

  const std::vector<std::shared_ptr<VolumePlugin>> fixed_;
  const Options options_;
  base::Mutex probing_;  // one look at a time; taken before mutex_
  std::vector<Probed> probed_ ABSL_GUARDED_BY(probing_);
  base::Mutex mutex_;
  std::map<std::string, Entry, std::less<>> found_ ABSL_GUARDED_BY(mutex_);
  base::KeyedWorkers inits_;
};

}  // namespace berth::volume
