// Makes a driver folder in memory by the choices of the input, and runs the scanner on it.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "choices.h"
#include "platform/files/durable_file.h"
#include "volume/flex/driver_folder.h"

namespace {

using namespace berth;  // NOLINT(google-build-using-namespace)
using fuzz::Choices;

constexpr int kMaxSteps = 64;

// Gives one of a few names, so that the same name often comes again; some of them are strange.
std::string ChooseName(Choices& choices) {
  static const char* const kNames[] = {
      "d",         "v~d",  "v.example~d", "e", "..d",    ".hidden",      "v~",       "~d",
      "a~b~c",     "V~d",  "lib",         "-", "d\n",    "d ",           "\xff\xfe", "*",
      "v.example", "d.sh", "%2e",         "~", "a..b~d", "v.example~e.f"};
  const std::string name = kNames[choices.Choose(std::size(kNames))];
  return choices.Choose(16) == 0 ? name + std::string(choices.Choose(255), 'x') : name;
}

// Gives a path below the folder, or below the folder of a driver in it.
std::string PathIn(const std::string& folder, Choices& choices) {
  static const char* const kDrivers[] = {"", "d", "v~d"};
  std::string path = folder;
  const std::string driver = kDrivers[choices.Choose(std::size(kDrivers))];
  if (!driver.empty()) path += "/" + driver;
  path += "/" + ChooseName(choices);
  for (uint8_t more = choices.Choose(3); more > 0; --more) path += "/" + ChooseName(choices);
  return path;
}

void MakeFile(const std::string& path, off_t size) {
  // O_NONBLOCK, because the path may be a FIFO, and the open must not wait for its reader.
  const base::UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0755));
  if (!fd.valid() || ftruncate(fd.get(), size) != 0) return;
}

void Step(const std::string& folder, Choices& choices) {
  const uint8_t what = choices.Choose(8);
  const std::string path = PathIn(folder, choices);
  switch (what) {
    case 0:
    case 1:
      mkdir(path.c_str(), 0755);
      break;
    case 2:
    case 3:
      MakeFile(path, choices.Choose(200) * 100);
      break;
    case 4: {
      const std::string target =
          choices.Choose(2) == 0 ? PathIn(folder, choices) : PathIn("..", choices);
      if (symlink(target.c_str(), path.c_str()) != 0) return;
      break;
    }
    case 5:
      mkfifo(path.c_str(), 0600);
      break;
    case 6:
      chmod(path.c_str(), choices.Choose(2) == 0 ? 0644 : 0);
      break;
    default:
      rename(path.c_str(), PathIn(folder, choices).c_str());
  }
}

volume::DriverLimits Limits(Choices& choices) {
  return {.folders = 1u + choices.Choose(20),
          .drivers = 1u + choices.Choose(5),
          .files = 1u + choices.Choose(10),
          .depth = 1 + choices.Choose(4),
          .bytes = 100u + choices.Choose(255) * 100u};
}

void Check(const std::string& folder, const volume::DriverScan& scan,
           const volume::DriverLimits& limits) {
  CHECK_THAT(scan.drivers.size() <= limits.drivers);
  std::set<std::string> seen;
  for (const volume::DriverFolder& driver : scan.drivers) {
    CHECK_THAT(seen.insert(driver.folder).second);
    CHECK_THAT(volume::FolderOfDriver(driver.driver) == driver.folder);
    CHECK_THAT(driver.files.size() <= limits.files);
    const auto& executable = driver.executable();
    CHECK_THAT(executable.kind == volume::DriverFile::Kind::kFile && executable.mode & 0111);
    uint64_t bytes = 0;
    for (const volume::DriverFile& file : driver.files) {
      CHECK_THAT(("/" + file.path).find("/.") == std::string::npos);
      // All folders above a file that the scan reports must be real ones, not symlinks.
      std::filesystem::path path = folder + "/" + driver.folder;
      for (const auto& part : std::filesystem::path(file.path).parent_path()) {
        CHECK_THAT(std::filesystem::symlink_status(path /= part).type() ==
                   std::filesystem::file_type::directory);
      }
      if (file.kind == volume::DriverFile::Kind::kFile) bytes += file.identity.size;
    }
    CHECK_THAT(bytes <= limits.bytes);
  }
  // Each folder and each symlink is a driver, or is left out with a reason. If there are too many,
  // the reason is under "".
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name[0] == '.' || !(entry.is_symlink() || entry.is_directory())) continue;
    CHECK_THAT(seen.contains(name) != scan.left_out.contains(name) || scan.left_out.contains(""));
  }
  for (const auto& [name, why] : scan.left_out) CHECK_THAT(!why.ok() && !seen.contains(name));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choices choices({reinterpret_cast<const char*>(data), size});
  std::string folder = "/dev/shm/berth-fuzz-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) abort();
  const volume::DriverLimits limits = Limits(choices);
  for (const char* driver : {"/d", "/v~d"}) {
    mkdir((folder + driver).c_str(), 0755);
    MakeFile(folder + driver + "/d", 1);
  }
  for (size_t i = 0; i < std::min<size_t>(size / 4, kMaxSteps); ++i) Step(folder, choices);
  {
    const auto drivers = volume::OpenDrivers(folder);
    if (!drivers.ok()) abort();
    const auto scan = volume::ScanDrivers(drivers->get(), limits);
    CHECK_THAT(scan.ok());
    Check(folder, *scan, limits);
    const auto again = volume::ScanDrivers(drivers->get(), limits);
    CHECK_THAT(again.ok() && again->drivers == scan->drivers);
  }
  std::filesystem::remove_all(folder);
  return 0;
}
