// Everything at once: the driver folder changes at random, and volumes of its drivers are mounted
// and unmounted by way of the registry meanwhile.
//
// BERTH_FLEX_STRESS_SECONDS says for how long; BERTH_FLEX_STRESS_SEED repeats a choice of changes,
// though not their timing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "base/ids.h"
#include "base/mutex.h"
#include "platform/files/durable_file.h"
#include "volume/fake_host.h"
#include "volume/flex/fake_driver_folder.h"
#include "volume/flex/fake_driver_vandal.h"
#include "volume/flex/flex_plugin.h"
#include "volume/flex/flex_prober.h"
#include "volume/plugin_registry.h"

namespace berth::volume {
namespace {

using base::MutexLock;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::IsEmpty;
namespace fs = std::filesystem;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text == nullptr ? otherwise : atoi(text);
}

class StressHost : public FakeHost {
 public:
  explicit StressHost(const std::string& kubelet_folder) : FakeHost(kubelet_folder) {
    UseMounter(platform::NewMounter());
  }
  platform::Exec& exec(std::string_view) override { return *exec_; }

 private:
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
};

class StressPlugin : public FlexPlugin {
 public:
  StressPlugin(Host& host, const std::shared_ptr<const FlexDriver>& driver,
               std::shared_ptr<DriverVersions> versions)
      : FlexPlugin(host, driver, std::move(versions)), driver_(driver) {}
  const FlexDriver& driver() const { return *driver_; }

 private:
  const std::shared_ptr<const FlexDriver> driver_;
};

// Of a volume that was asked for, whatever came of it.
struct Volume {
  VolumeSpec spec;
  PodVolumeRecord pod;
  std::optional<DeviceRecord> device;
};

class FlexStressTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root";
    ASSERT_TRUE(platform::MakeFolders(host_.paths().root()).ok());
  }

  void Start() {
    std::vector<std::unique_ptr<PluginProber>> probers;
    probers.push_back(std::make_unique<FlexProber>(FlexProber::Options{
        .drivers = folder_.path(),
        .store = {.folder = temp_ / "store", .users = ""},
        .make =
            [this](const std::shared_ptr<const FlexDriver>& driver,
                   std::shared_ptr<DriverVersions> versions) {
              return std::make_shared<StressPlugin>(host_, driver, std::move(versions));
            },
        .window = milliseconds(50)}));
    registry_ = std::make_unique<PluginRegistry>(
        PluginList(), std::move(probers),
        PluginRegistry::Options{
            .on_state = [this](const std::string&, const Status& state) { CheckFailure(state); }});
    ASSERT_TRUE(registry_->Init().ok());
  }

  // The drivers are right, if they are whole: none that is called fails.
  void CheckFailure(const Status& status) {
    const std::string text = base::ToString(status);
    for (const char* wrong : {"command failed", "no reply", "is unknown", "cannot be run",
                              "no version", "take back", "does not support mount"}) {
      if (text.find(wrong) == std::string::npos) continue;
      MutexLock lock(mutex_);
      wrong_.push_back(text);
    }
  }

  VolumeSpec Spec(const std::string& driver, const std::string& volume, bool persistent) {
    Json source = {{"driver", driver}};
    if (!persistent) {
      return {.name = volume,
              .pod_volume = api::PodVolume(Json{{"name", volume}, {"flexVolume", source}})};
    }
    return {.name = volume,
            .pod_volume = api::PodVolume(Json{{"name", volume}}),
            .claim = std::make_shared<api::PersistentVolumeClaim>(),
            .pv = std::make_shared<api::PersistentVolume>(
                Json{{"metadata", {{"name", volume}}}, {"spec", {{"flexVolume", source}}}})};
  }
  static api::Pod Pod(const std::string& uid) {
    return api::Pod({{"metadata", {{"name", uid}, {"namespace", "shop"}, {"uid", uid}}},
                     {"spec", Json::object()}});
  }

  // As the volume manager does it: records before calls, and what fails is undone.
  std::optional<Volume> Mount(const std::string& driver, const std::string& volume,
                              bool persistent) {
    Volume made{.spec = Spec(driver, volume, persistent), .pod = {}, .device = {}};
    const auto plugin = registry_->Find(made.spec);
    CheckFailure(plugin.status());
    if (!plugin.ok()) return std::nullopt;
    const auto device_name = (*plugin)->DeviceName(made.spec);
    if (!device_name.ok()) return std::nullopt;  // it attaches, and the volume is inline
    const api::Pod pod = Pod("uid-" + volume);
    made.pod = {.plugin = driver,
                .pod_uid = pod.uid(),
                .folder_name = volume,
                .state = (*plugin)->PodState(pod, made.spec).value()};
    if (device_name->has_value()) {
      made.device = {.plugin = driver,
                     .device_name = **device_name,
                     .pv_name = volume,
                     .state = (*plugin)->DeviceState(made.spec).value()};
      const Status mounted = (*plugin)->MountDevice(pod, made.spec, {});
      CheckFailure(mounted);
      if (!mounted.ok()) return made;
    }
    const auto published = (*plugin)->SetUp(pod, made.spec, {});
    CheckFailure(published.status());
    if (published.ok()) ++(fs::exists(DeviceFolder(made)) ? with_device_ : without_device_);
    return made;
  }
  void Unmount(const Volume& volume) {
    const auto plugin = registry_->FindByName(volume.pod.plugin);
    ASSERT_NE(plugin, nullptr);
    const Status torn_down = plugin->TearDown(volume.pod);
    EXPECT_TRUE(torn_down.ok()) << torn_down;
    if (!volume.device.has_value()) return;
    const Status unmounted = plugin->UnmountDevice(*volume.device);
    EXPECT_TRUE(unmounted.ok()) << unmounted;
    EXPECT_FALSE(fs::exists(DeviceFolder(volume)));
  }
  std::string DeviceFolder(const Volume& volume) {
    return host_.paths()
        .FlexMount(volume.pod.plugin, api::VolumeName(volume.pod.folder_name))
        .text();
  }

  // Until `stop_`; some are unmounted much later than others.
  void MountAndUnmount(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Volume> mounted;
    for (int i = 0; !stop_; ++i) {
      const auto driver = static_cast<int>(random() % FakeDriverVandal::kDrivers);
      auto volume = Mount(FakeDriverVandal::DriverName(driver), fmt::format("v-{}-{}", seed, i),
                          random() % 4 != 0);
      if (volume.has_value()) mounted.push_back(*std::move(volume));
      if (mounted.size() < 4) continue;
      const auto which = static_cast<std::ptrdiff_t>(random() % mounted.size());
      Unmount(mounted[static_cast<size_t>(which)]);
      mounted.erase(mounted.begin() + which);
    }
    for (const Volume& volume : mounted) Unmount(volume);
  }

  // What a fresh scan finds, as "driver: digest of its executable", and what the registry has.
  std::vector<std::string> Fresh() {
    std::vector<std::string> found;
    const auto drivers = OpenDrivers(folder_.path());
    if (!drivers.ok()) return {"no folder"};
    const auto scan = ScanDrivers(drivers->get());
    if (!scan.ok()) return {"no scan"};
    for (const DriverFolder& driver : scan->drivers) {
      found.push_back(
          Describe(driver.driver, folder_ / (driver.folder + "/" + driver.executable().path)));
    }
    return found;
  }
  std::vector<std::string> Listed() {
    std::vector<std::string> found;
    for (const auto& plugin : registry_->ListPlugins()) {
      const auto current = std::static_pointer_cast<StressPlugin>(plugin)->driver().Current();
      const auto ready = registry_->Find(Spec(std::string(plugin->name()), "v", true));
      found.push_back(ready.ok() && current.ok() ? Describe(plugin->name(), current->executable)
                                                 : base::ToString(ready.status()));
    }
    return found;
  }
  static std::string Describe(std::string_view driver, const std::string& executable) {
    const auto content = platform::ReadFile(executable);
    return fmt::format("{}: {}", driver, content.ok() ? base::Sha256Hex(*content) : "unreadable");
  }

  // The drivers of the copies on disk, each as often as it has some; with what holds one.
  std::vector<std::string> Copies() {
    std::vector<std::string> drivers;
    const std::string store = temp_ / "store";
    const auto folders = platform::ListFolder(store);
    for (const std::string& folder : *folders) {
      if (folder.starts_with('.')) continue;
      const auto ids = platform::ListFolder(store + "/" + folder);
      if (!ids.ok()) continue;  // it is being collected
      for (const std::string& id : *ids) {
        const auto held = platform::ListFolder(fmt::format("{}/{}/{}/.held", store, folder, id));
        drivers.push_back(*DriverOfFolder(folder) +
                          (held.ok() && !held->empty() ? " is held" : ""));
      }
    }
    return drivers;
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& plugin : registry_->ListPlugins()) names.emplace_back(plugin->name());
    return names;
  }
  int Folders() {
    int folders = 1;
    std::error_code gone;
    for (auto it = fs::recursive_directory_iterator(folder_.path(), gone);
         it != fs::recursive_directory_iterator(); ++it) {
      const bool hidden = it->path().filename().string().starts_with('.');
      if (hidden && it->is_directory()) it.disable_recursion_pending();
      if (!hidden && it->is_directory() && !it->is_symlink()) ++folders;
    }
    return folders;
  }
  bool Settled() {
    return Listed() == Fresh() && Copies() == Names() && InotifyWatches() == Folders();
  }
  std::vector<std::string> Mounts() {
    std::vector<std::string> mounts;
    const auto table = host_.mounter().List();
    if (!table.ok()) return {base::ToString(table.status())};
    for (const auto& entry : *table) {
      if (entry.mount_point.starts_with(temp_.path())) mounts.push_back(entry.mount_point);
    }
    return mounts;
  }

  const platform::TempFolder temp_;
  const FakeDriverFolder folder_;
  StressHost host_{temp_ / "kubelet"};
  std::unique_ptr<PluginRegistry> registry_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> with_device_ = 0, without_device_ = 0;
  base::Mutex mutex_;
  std::vector<std::string> wrong_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(FlexStressTest, WhileTheFolderChangesVolumesComeAndGoAndNothingIsLeft) {
  const auto seed =
      static_cast<unsigned>(FromEnvironment("BERTH_FLEX_STRESS_SEED", static_cast<int>(getpid())));
  const std::chrono::seconds duration(FromEnvironment("BERTH_FLEX_STRESS_SECONDS", 20));
  RecordProperty("seed", static_cast<int>(seed));
  const std::string partial = temp_ / "partial";
  EXPECT_THAT(Mounts(), IsEmpty());
  const int before = OpenDescriptors();
  Start();
  {
    const auto end = steady_clock::now() + duration;
    // A slow machine gets more time to mount some volumes.
    const auto is_enough = [&, latest = end + std::chrono::minutes(5)] {
      const auto now = steady_clock::now();
      return now >= latest || (now >= end && with_device_ > 4 && without_device_ > 4);
    };
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] { MountAndUnmount(i); });
      threads.emplace_back([&, i] {
        FakeDriverVandal vandal(folder_, partial, seed + i);
        while (!is_enough()) {
          vandal.Change();
          std::this_thread::sleep_for(milliseconds(15));
        }
      });
    }
    while (!is_enough()) std::this_thread::sleep_for(milliseconds(20));
    stop_ = true;
  }
  // All that was open is closed, and all volumes are unmounted: it settles.
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  while (!Settled() && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(Listed(), Fresh()) << "seed " << seed;
  EXPECT_EQ(Copies(), Names());
  EXPECT_EQ(InotifyWatches(), Folders());
  EXPECT_THAT(Mounts(), IsEmpty());
  EXPECT_GT(with_device_, 4);
  EXPECT_GT(without_device_, 4);
  RecordProperty("mounted", with_device_ + without_device_);
  EXPECT_FALSE(fs::exists(partial)) << platform::ReadFile(partial).value_or("");
  registry_.reset();
  EXPECT_EQ(OpenDescriptors(), before);
  EXPECT_EQ(InotifyWatches(), 0);
  MutexLock lock(mutex_);
  EXPECT_THAT(wrong_, IsEmpty());
}

}  // namespace
}  // namespace berth::volume
