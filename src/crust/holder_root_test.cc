#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <thread>
#include <vector>

#include "crust/holder.h"
#include "crust/mount_namespace.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust {
namespace {

std::vector<int> Cpus(const cpu_set_t& set) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void GoTo(int cpu, const cpu_set_t& all) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

// In a namespace of its own, made on that CPU, as a handler has one that systemd starts so.
void KeepSandboxes(int made_on, const cpu_set_t& all) {
  GoTo(made_on, all);
  ASSERT_EQ(unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  const platform::TempFolder folder;
  const std::string& pins = folder.path();
  const auto mounter = platform::NewMounter();
  const auto prepared = PreparePins(*mounter, pins);
  ASSERT_TRUE(prepared.ok()) << prepared;
  for (int i = 0; i < 20; ++i) {
    for (const int cpu : Cpus(all)) {
      GoTo(cpu, all);
      const auto holder = Holder::Open(*mounter, pins + "/s1");
      ASSERT_TRUE(holder.ok()) << holder.status();
      const auto removed = UnpinNamespace(*mounter, pins + "/s1");
      ASSERT_TRUE(removed.ok()) << removed;
    }
  }
  ASSERT_EQ(umount2(pins.c_str(), MNT_DETACH), 0);
}

TEST(HolderTest, IsKeptByWhicheverProcessorItIsMade) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  for (const int cpu : Cpus(all)) std::thread(KeepSandboxes, cpu, all).join();
}

}  // namespace
}  // namespace berth::crust
