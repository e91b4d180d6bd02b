// Everything at once: the driver folder changes at random, and volumes come and go.
//
// BERTH_FLEX_STRESS_SECONDS says for how long; BERTH_FLEX_STRESS_SEED repeats a choice of changes,
// though not their timing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "base/ids.h"
#include "base/mutex.h"
#include "platform/durable_file.h"
#include "platform/exec.h"
#include "volume/flex/fake_driver_folder.h"
#include "volume/flex/fake_flex_plugin.h"
#include "volume/flex/flex_prober.h"

namespace berth::volume {
namespace {

using base::MutexLock;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text == nullptr ? otherwise : atoi(text);
}

// A driver that says "whole" if its last line is the digest of all lines before.
std::string SelfChecking(int version, size_t padding) {
  std::string script = fmt::format(
      "#!/bin/sh\nset -- $(head -n -1 \"$0\" | sha256sum) $(tail -n 1 \"$0\")\n"
      "[ \"#$1\" = \"$3\" ] && echo whole || echo partial\nexit # {}\n",
      version);
  for (size_t i = 0; i < padding; ++i) script += fmt::format("# line {}\n", i);
  return script + "#" + base::Sha256Hex(script) + "\n";
}

// Changes the folder at random. What it closes under the executable's name, for anyone to run, is
// whole; what it has open, is not.
class Vandal {
 public:
  Vandal(const FakeDriverFolder& folder, unsigned seed) : folder_(folder), random_(seed) {}

  void Change() {
    const int number = Choose(kDrivers);
    const std::scoped_lock lock(writing_[number]);
    const std::string name = fmt::format("d{}", number);
    const std::string in = folder_ / ("v.example~" + name), executable = in + "/" + name;
    mkdir(in.c_str(), 0755);
    switch (Choose(14)) {
      case 0:
      case 1:
      case 2:
        Write(in + "/.part", 0755, /*slowly=*/false);
        rename((in + "/.part").c_str(), executable.c_str());
        break;
      case 3:
        Write(executable, 0755, /*slowly=*/true);
        break;
      case 4:
        unlink(executable.c_str());
        break;
      case 5:
        Away(in);
        break;
      case 6:
        Away(in);
        Link(in);
        break;
      case 7:
        unlink(executable.c_str());
        Link(executable);
        break;
      case 8:
        chmod(executable.c_str(), Choose(2) == 0 ? 0644 : 0755);
        break;
      case 9: {
        const std::string fresh = folder_ / (".new-" + name);
        mkdir(fresh.c_str(), 0755);
        Write(fresh + "/" + name, 0755, /*slowly=*/false);
        Away(in);
        rename(fresh.c_str(), in.c_str());
        break;
      }
      case 10:
        mkdir((in + "/lib").c_str(), 0755);
        Write(in + "/lib/helper", 0644, Choose(2) == 0);
        break;
      case 11:
        Away(in + "/lib");
        break;
      case 12:
        mkdir((folder_ / ("no~qualified~" + name)).c_str(), 0755);
        break;
      default:
        if (Choose(10) == 0) Away(folder_.path());
    }
  }

 private:
  static constexpr int kDrivers = 5;

  int Choose(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  // To a folder that is nothing to anybody: what is written through it goes nowhere.
  void Link(const std::string& path) {
    const std::string elsewhere = folder_.path() + ".elsewhere";
    mkdir(elsewhere.c_str(), 0755);
    if (symlink(elsewhere.c_str(), path.c_str()) != 0) return;
  }

  void Write(const std::string& path, mode_t mode, bool slowly) {
    const std::string text = SelfChecking(++version_, static_cast<size_t>(Choose(2000)));
    const base::UniqueFd fd(
        open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
    const size_t half = text.size() / 2;
    if (!fd.valid() || write(fd.get(), text.data(), half) < 0) return;
    if (slowly) std::this_thread::sleep_for(milliseconds(Choose(100)));
    if (write(fd.get(), text.data() + half, text.size() - half) < 0) return;
  }

  // Out of the folder in one step.
  void Away(const std::string& path) {
    const std::string trash = fmt::format("{}.trash-{}-{}", folder_.path(), getpid(), ++version_);
    if (rename(path.c_str(), trash.c_str()) != 0) return;
    std::error_code ignored;
    std::filesystem::remove_all(trash, ignored);
  }

  const FakeDriverFolder& folder_;
  std::mt19937 random_;
  static inline std::atomic<int> version_ = 0;
  // Two who write one file in place would leave a mix that both closed.
  static inline std::array<std::mutex, kDrivers> writing_;
};

class FlexStressTest : public testing::Test {
 protected:
  // Its thread tells of news until then.
  ~FlexStressTest() override { prober_.reset(); }

  void Start() {
    prober_ = std::make_unique<FlexProber>(
        FlexProber::Options{.drivers = folder_.path(),
                            .store = {.folder = temp_ / "store", .users = {}},
                            .make = FakeFlexPlugin::Make,
                            .window = milliseconds(50)});
    prober_->OnNews([this] {
      MutexLock lock(mutex_);
      ++news_;
      changed_.NotifyAll();
    });
    ASSERT_TRUE(prober_->Init().ok());
  }

  void Probe() {
    auto list = prober_->Probe();  // an error while the folder is away: the last list holds
    MutexLock lock(mutex_);
    if (list.ok() && list->has_value()) list_ = **std::move(list);
  }
  PluginList List() {
    MutexLock lock(mutex_);
    return list_;
  }

  // Runs drivers as volumes do: holds, runs, and lets go; now and then much later.
  void MountAndUnmount(unsigned seed) {
    std::mt19937 random(seed);
    const auto exec = platform::NewHostExec();
    std::vector<std::function<void()>> mounted;
    while (!stop_) {
      const PluginList list = List();
      if (list.empty() || mounted.size() > 3) {
        if (!mounted.empty()) mounted.front()(), mounted.erase(mounted.begin());
        std::this_thread::yield();
        continue;
      }
      const auto plugin = std::static_pointer_cast<FakeFlexPlugin>(list[random() % list.size()]);
      auto version = plugin->driver().Current();
      if (!version.ok()) continue;
      const std::string user = fmt::format("volumes/{}-{}", seed, ++calls_);
      ASSERT_TRUE(plugin->versions().Hold(*version, user).ok());
      Run(*exec, version->executable);
      mounted.push_back([this, &exec, plugin, user, id = version->id] {
        const auto kept = plugin->versions().HeldBy(plugin->name(), user);
        ASSERT_TRUE(kept.ok() && kept->has_value());
        EXPECT_EQ((*kept)->id, id);
        Run(*exec, (*kept)->executable);
        EXPECT_TRUE(plugin->versions().Release(**kept, user).ok());
      });
    }
    for (const auto& unmount : mounted) unmount();
  }

  void Run(platform::Exec& exec, const std::string& executable) {
    const auto ran = exec.Run({.argv = {executable}, .timeout = std::chrono::seconds(60)});
    ASSERT_TRUE(ran.ok()) << ran.status();
    EXPECT_EQ(ran->out, "whole\n") << ran->err;
  }

  // What a fresh scan finds, as "driver: digest of its executable".
  std::vector<std::string> Fresh() {
    std::vector<std::string> found;
    const auto drivers = OpenDrivers(folder_.path());
    if (!drivers.ok()) return {"no folder"};
    const auto scan = ScanDrivers(drivers->get());
    for (const DriverFolder& driver : scan->drivers) {
      found.push_back(
          Describe(driver.driver, folder_ / (driver.folder + "/" + driver.executable().path)));
    }
    return found;
  }
  std::vector<std::string> Listed() {
    std::vector<std::string> found;
    for (const auto& plugin : List()) {
      const auto current = std::static_pointer_cast<FakeFlexPlugin>(plugin)->driver().Current();
      found.push_back(current.ok() ? Describe(plugin->name(), current->executable)
                                   : base::ToString(current.status()));
    }
    return found;
  }
  static std::string Describe(std::string_view driver, const std::string& executable) {
    const auto content = platform::ReadFile(executable);
    return fmt::format("{}: {}", driver, content.ok() ? base::Sha256Hex(*content) : "unreadable");
  }

  // The drivers of the copies on disk, one for each.
  std::vector<std::string> Copies() {
    std::vector<std::string> drivers;
    const auto folders = platform::ListFolder(temp_ / "store");
    for (const std::string& folder : *folders) {
      if (folder.starts_with('.')) continue;
      const auto ids = platform::ListFolder(temp_ / ("store/" + folder));
      drivers.insert(drivers.end(), ids->size(), *DriverOfFolder(folder));
    }
    return drivers;
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& plugin : List()) names.emplace_back(plugin->name());
    return names;
  }
  bool Settled() {
    return Listed() == Fresh() && Copies() == Names() && InotifyWatches() == Folders();
  }

  int Folders() {
    int folders = 1;
    for (auto it = std::filesystem::recursive_directory_iterator(folder_.path());
         it != std::filesystem::recursive_directory_iterator(); ++it) {
      const bool hidden = it->path().filename().string().starts_with('.');
      if (hidden && it->is_directory()) it.disable_recursion_pending();
      if (!hidden && it->is_directory() && !it->is_symlink()) ++folders;
    }
    return folders;
  }

  const platform::TempFolder temp_;
  const FakeDriverFolder folder_;
  std::unique_ptr<FlexProber> prober_;
  base::Mutex mutex_;
  base::CondVar changed_;
  int news_ ABSL_GUARDED_BY(mutex_) = 0;
  PluginList list_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stop_ = false;
  std::atomic<int> calls_ = 0;
};

TEST_F(FlexStressTest, TheListIsWhatAFreshScanFinds) {
  const int before = OpenDescriptors();
  const auto seed =
      static_cast<unsigned>(FromEnvironment("BERTH_FLEX_STRESS_SEED", static_cast<int>(getpid())));
  RecordProperty("seed", static_cast<int>(seed));
  Start();
  {
    const auto end =
        steady_clock::now() + std::chrono::seconds(FromEnvironment("BERTH_FLEX_STRESS_SECONDS", 2));
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      while (!stop_) Probe(), std::this_thread::sleep_for(milliseconds(1));
    });
    for (unsigned i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] { MountAndUnmount(i); });
      threads.emplace_back([&, i] {
        Vandal vandal(folder_, seed + i);
        while (steady_clock::now() < end) {
          vandal.Change();
          std::this_thread::sleep_for(milliseconds(2));
        }
      });
    }
    std::this_thread::sleep_until(end);
    stop_ = true;
  }
  // All that was open is closed, and all volumes are unmounted: it settles. One more change, since
  // nothing tells that a version runs no more.
  folder_.Install("last", "last");
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  for (int seen = -1; !Settled();) {
    {
      MutexLock lock(mutex_);
      while (news_ == seen && changed_.WaitUntil(mutex_, deadline)) {
      }
      if (news_ == seen) break;
      seen = news_;
    }
    Probe();
  }
  EXPECT_EQ(Listed(), Fresh()) << "seed " << seed;
  EXPECT_EQ(Copies(), Names());
  EXPECT_EQ(InotifyWatches(), Folders());
  EXPECT_GT(calls_, 0);
  {
    MutexLock lock(mutex_);
    list_.clear();
  }
  prober_.reset();
  EXPECT_EQ(OpenDescriptors(), before);
  EXPECT_EQ(InotifyWatches(), 0);
}

// A storm of events, with somebody who asks all the time.
TEST_F(FlexStressTest, AStormIsOneScanAWindow) {
  folder_.Install("nfs", "one");
  folder_.Install("other", "two");
  Start();
  std::atomic<int> scans = 0;
  std::jthread asks([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto list = prober_->Probe();
      if (list.ok() && list->has_value()) ++scans;
    }
  });
  const auto start = steady_clock::now();
  int events = 0;
  while (steady_clock::now() - start < milliseconds(500)) {
    chmod((folder_ / (++events % 2 == 0 ? "nfs/nfs" : "other/other")).c_str(), 0755);
  }
  const auto windows = (steady_clock::now() - start) / milliseconds(50);
  asks.request_stop();
  asks.join();
  // The first scan, one at each window's end, and that of a window that was cut off.
  EXPECT_LE(scans, windows + 2);
  EXPECT_GT(events, scans);
}

}  // namespace
}  // namespace berth::volume
