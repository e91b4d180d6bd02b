#include "volume/flex/fake_driver_vandal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/ids.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace berth::volume {
namespace {

// So many lines that half of a driver still contains its check.
constexpr size_t kLeastPadding = 200;

// All vandals share it, so that no two drivers or names are equal.
std::atomic<int> last_version = 0;
// Two vandals that write one file in place would leave a mixture.
std::array<std::mutex, FakeDriverVandal::kDrivers> writing;

std::string NameOf(int number) { return fmt::format("d{}", number); }

}  // namespace

std::string SelfCheckingDriver(int version, bool attaches, std::string_view partial,
                               size_t padding) {
  std::string script = fmt::format(R"(#!/bin/sh
# version {}
fail() {{ echo '{{"status": "Failure", "message": "it failed"}}'; exit 1; }}
is=$(head -n -1 "$0" | sha256sum) ought=$(tail -n 1 "$0")
[ "#${{is%% *}}" = "$ought" ] || {{ echo "$0 $1" >>{}; fail; }}
attaches={}
ok() {{ echo '{{"status": "Success"}}'; exit 0; }}
case $1 in
  init) echo '{{"status": "Success", "capabilities": {{"attach": '$attaches'}}}}'; exit 0 ;;
  getvolumename) ok ;;
  mount) $attaches || {{ mount -t tmpfs -o size=64k "$0" "$2" || fail; ok; }} ;;
  mountdevice) mount -t tmpfs -o size=64k "$0" "$2" || fail; ok ;;
  unmount | unmountdevice) if mountpoint -q "$2"; then umount "$2" || fail; fi; ok ;;
esac
echo '{{"status": "Not supported"}}'
exit 1
)",
                                   version, partial, attaches);
  for (size_t i = 0; i < kLeastPadding + padding; ++i) script += fmt::format("# line {}\n", i);
  return script + "#" + base::Sha256Hex(script) + "\n";
}

std::string FakeDriverVandal::DriverName(int number) { return "v.example/" + NameOf(number); }

FakeDriverVandal::FakeDriverVandal(const FakeDriverFolder& folder, std::string partial,
                                   unsigned seed)
    : folder_(folder), partial_(std::move(partial)), random_(seed) {}

void FakeDriverVandal::Change() {
  const int number = Choose(kDrivers);
  const std::scoped_lock lock(writing[static_cast<size_t>(number)]);
  ChangeDriver(NameOf(number));
}

void FakeDriverVandal::ChangeDriver(const std::string& name) {
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

// Links to a folder that nobody uses, so that a write through the link has no effect.
void FakeDriverVandal::Link(const std::string& path) const {
  const std::string elsewhere = folder_.path() + ".elsewhere";
  mkdir(elsewhere.c_str(), 0755);
  if (symlink(elsewhere.c_str(), path.c_str()) != 0) return;
}

void FakeDriverVandal::Write(const std::string& path, unsigned mode, bool slowly) {
  const std::string text = SelfCheckingDriver(++last_version, Choose(2) == 0, partial_,
                                              static_cast<size_t>(Choose(2000)));
  const base::UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
  const size_t half = text.size() / 2;
  if (!fd.valid() || write(fd.get(), text.data(), half) < 0) return;
  if (slowly) std::this_thread::sleep_for(std::chrono::milliseconds(Choose(100)));
  if (write(fd.get(), text.data() + half, text.size() - half) < 0) return;
}

// Moves it out of the folder in one step.
void FakeDriverVandal::Away(const std::string& path) const {
  const std::string trash = fmt::format("{}.trash-{}", folder_.path(), ++last_version);
  if (rename(path.c_str(), trash.c_str()) != 0) return;
  std::error_code ignored;
  std::filesystem::remove_all(trash, ignored);
}

}  // namespace berth::volume
