#include "cli/plugins/flex_drivers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::cli {
namespace {

namespace fs = std::filesystem;
using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class FlexDriversTest : public testing::Test {
 protected:
  // Makes a driver, whose executable is one file, at SOURCE/path.
  std::string Make(const std::string& path, std::string_view content, mode_t mode = 0755) {
    const std::string full = folder_ / "source/" + path;
    fs::create_directories(fs::path(full).parent_path());
    std::ofstream(full) << content;
    chmod(full.c_str(), mode);
    return full;
  }
  base::StatusOr<std::string> Install(
      const std::string& source, std::vector<std::string> files = {}, std::string driver = "",
      const CheckFlexDriver& check = [](const std::string&, const std::string&) {
        return base::OkStatus();
      }) {
    return InstallFlexDriver({.drivers = drivers_,
                              .source = source,
                              .files = std::move(files),
                              .driver = std::move(driver)},
                             check);
  }
  base::StatusOr<std::string> Remove(const std::string& driver,
                                     std::vector<platform::MountEntry> mounts = {}) {
    return RemoveFlexDriver({.drivers = drivers_,
                             .driver = driver,
                             .mounts = std::move(mounts),
                             .berth_kubelet = "/srv/berth/kubelet"});
  }
  std::string Read(const std::string& path) const {
    return platform::ReadFile(drivers_ + "/" + path).value_or("(none)");
  }
  std::vector<std::string> Names(const std::string& path) const {
    return platform::ListFolder(drivers_ + "/" + path).value_or(std::vector<std::string>{});
  }

  platform::TempFolder folder_;
  const std::string drivers_ = folder_ / "node/drivers";
};

TEST_F(FlexDriversTest, InstallsAnExecutableByItsPlaceOrByName) {
  EXPECT_EQ(*Install(Make("acme~nfs/nfs", "1")),
            "installed acme/nfs as " + drivers_ + "/acme~nfs/nfs\n");
  EXPECT_EQ(*Install(Make("build/out", "2"), {}, "acme.com/disk"),
            "installed acme.com/disk as " + drivers_ + "/acme.com~disk/disk\n");
  EXPECT_EQ(*Install(Make("build/plain", "3")),
            "installed plain as " + drivers_ + "/plain/plain\n");
  EXPECT_EQ(Read("acme~nfs/nfs"), "1");
  EXPECT_EQ(Read("acme.com~disk/disk"), "2");
  EXPECT_EQ(Read("plain/plain"), "3");
  EXPECT_THAT(Names(""), ElementsAre(".berth-install.lock", "acme.com~disk", "acme~nfs", "plain"));
}

TEST_F(FlexDriversTest, InstallsOtherFilesBesideAndAWholeFolder) {
  const std::string library = Make("build/library.sh", "l", 0644);
  Make("build/conf/a/b", "ab", 0664);
  ASSERT_TRUE(
      Install(Make("build/nfs", "1", 0777), {library, folder_ / "source/build/conf/"}, "acme/nfs")
          .ok());
  EXPECT_THAT(Names("acme~nfs"), ElementsAre("conf", "library.sh", "nfs"));
  EXPECT_EQ(Read("acme~nfs/conf/a/b"), "ab");
  struct stat st;
  ASSERT_EQ(stat((drivers_ + "/acme~nfs/nfs").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0755u) << "nobody but root writes what root runs";

  Make("acme~disk/disk", "2");
  Make("acme~disk/lib/part", "3", 0644);
  Make("acme~disk/.git/secret", "4", 0644);
  fs::create_symlink("lib/part", folder_ / "source/acme~disk/link");
  ASSERT_TRUE(Install(folder_ / "source/acme~disk/").ok());
  EXPECT_THAT(Names("acme~disk"), ElementsAre("disk", "lib", "link")) << "no dot names";
  EXPECT_EQ(fs::read_symlink(drivers_ + "/acme~disk/link"), "lib/part");
}

TEST_F(FlexDriversTest, ChecksBeforeAnythingIsInPlace) {
  ASSERT_TRUE(Install(Make("acme~nfs/nfs", "1")).ok());
  const std::string library = Make("build/library.sh", "l", 0644);
  const std::string source = Make("acme~nfs/nfs", "2");
  std::vector<std::string> checked;
  const auto installed =
      Install(source, {library}, "", [&](const std::string& executable, const std::string& driver) {
        checked = {driver, platform::ReadFile(executable).value_or("(none)"),
                   platform::ReadFile(fs::path(executable).replace_filename("library.sh"))
                       .value_or("(none)"),
                   Read("acme~nfs/nfs")};
        EXPECT_THAT(Names("acme~nfs"), ElementsAre("nfs"));
        return base::Error(StatusCode::kFailedPrecondition, "it has 2 faults");
      });
  EXPECT_THAT(checked, ElementsAre("acme/nfs", "2", "l", "1"))
      << "the copy, with what is beside it";
  EXPECT_EQ(installed.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(base::Message(installed.status()), "nothing was installed: it has 2 faults");
  EXPECT_EQ(Read("acme~nfs/nfs"), "1");
  EXPECT_THAT(Names("acme~nfs"), ElementsAre("nfs"));
  EXPECT_THAT(Names(""), ElementsAre(".berth-install.lock", "acme~nfs"));
}

TEST_F(FlexDriversTest, AnUpdateIsAnotherFileAndKeepsWhatTheDriverHasThere) {
  ASSERT_TRUE(Install(Make("acme~nfs/nfs", "1")).ok());
  Make("../node/drivers/acme~nfs/state", "kept", 0644);
  std::ifstream running(drivers_ + "/acme~nfs/nfs");
  EXPECT_EQ(*Install(Make("acme~nfs/nfs", "2")),
            "updated acme/nfs as " + drivers_ + "/acme~nfs/nfs\n");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(running), {}), "1");
  EXPECT_EQ(Read("acme~nfs/nfs"), "2");
  EXPECT_EQ(Read("acme~nfs/state"), "kept");
}

TEST_F(FlexDriversTest, ClearsAwayWhatACrashLeft) {
  Make("../node/drivers/.berth-install/old~driver/driver", "half");
  ASSERT_TRUE(Install(Make("acme~nfs/nfs", "1")).ok());
  EXPECT_THAT(Names(""), ElementsAre(".berth-install.lock", "acme~nfs"));
  const auto lock = platform::LockFile(drivers_ + "/.berth-install.lock");
  Make("../node/drivers/.berth-install/other~driver/driver", "half");
  EXPECT_THAT(base::ToString(Install(Make("acme~nfs/nfs", "2")).status()),
              HasSubstr("another installation runs"));
  EXPECT_EQ(Read("acme~nfs/nfs"), "1");
  EXPECT_EQ(Read(".berth-install/other~driver/driver"), "half") << "the other's";
}

TEST_F(FlexDriversTest, RefusesWhatIsNoDriver) {
  const auto why = [this](const std::string& source, std::vector<std::string> files = {},
                          std::string driver = "") {
    return base::ToString(Install(source, std::move(files), std::move(driver)).status());
  };
  EXPECT_THAT(why(folder_ / "nowhere"), HasSubstr("NOT_FOUND"));
  EXPECT_THAT(why(Make("acme~nfs/nfs", "1", 0644)), HasSubstr("is not executable (mode 0644)"));
  EXPECT_THAT(why(Make("acme~nfs/nfs", "")), HasSubstr("is empty"));
  EXPECT_THAT(why(Make("acme~nfs/nfs", "1"), {}, "a/b/c"), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(why(Make("acme~nfs/nfs", "1"), {}, "../nfs"), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(why(Make("acme~nfs/nfs", "1"), {Make("build/nfs", "1")}),
              HasSubstr("something of that name is there"));
  EXPECT_THAT(why(Make("acme~nfs/nfs", "1"), {Make("build/.rc", "1")}), HasSubstr("dot"));
  EXPECT_THAT(why(folder_ / "source/acme~nfs", {}, "acme/other"),
              HasSubstr("without another name"));
  EXPECT_THAT(why(folder_ / "source/build"), HasSubstr("there is no executable 'build' in it"));
  EXPECT_THAT(Names(""), ElementsAre(".berth-install.lock"));

  fs::create_directory_symlink(folder_ / "source", drivers_ + "/acme~nfs");
  EXPECT_THAT(why(Make("acme~nfs/nfs", "1")), HasSubstr("is a symbolic link"));
}

TEST_F(FlexDriversTest, ListsDriversAndWhyTheOthersAreNone) {
  EXPECT_EQ(*ListFlexDrivers(drivers_), "there is no driver folder '" + drivers_ + "'\n");
  fs::create_directories(drivers_);
  EXPECT_EQ(*ListFlexDrivers(drivers_), "there are no drivers in '" + drivers_ + "'\n");
  ASSERT_TRUE(
      Install(Make("acme~nfs/nfs", std::string(1500, 'x')), {Make("build/library.sh", "l", 0644)})
          .ok());
  fs::create_directory(drivers_ + "/acme~empty");
  fs::create_directory(drivers_ + "/a~b~c");
  EXPECT_THAT(*ListFlexDrivers(drivers_),
              testing::AllOf(testing::ContainsRegex("NAME +FILES +SIZE +PROBLEM\n"),
                             testing::ContainsRegex("acme/nfs +2 +2 KiB *\n"),
                             testing::ContainsRegex("acme/empty +- +- +there is no executable"),
                             testing::ContainsRegex("a~b~c +- +- +the name is neither"),
                             Not(HasSubstr("berth-install"))));
}

TEST_F(FlexDriversTest, RemovesADriverAndNothingElse) {
  ASSERT_TRUE(Install(Make("acme~nfs/nfs", "1"), {Make("build/library.sh", "l", 0644)}).ok());
  ASSERT_TRUE(Install(Make("build/plain", "2")).ok());
  EXPECT_EQ(*Remove("acme/nfs"), "removed acme/nfs from " + drivers_ + "/acme~nfs\n");
  EXPECT_THAT(Names(""), ElementsAre(".berth-install.lock", "plain"));
  EXPECT_EQ(Remove("acme/nfs").status().code(), StatusCode::kNotFound);
  for (const char* name : {"..", ".", "", "a/../../plain", "../drivers/plain", "/plain"}) {
    EXPECT_EQ(Remove(name).status().code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(Read("plain/plain"), "2");

  fs::create_directory_symlink(folder_ / "source", drivers_ + "/acme~nfs");
  EXPECT_EQ(Remove("acme/nfs").status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(folder_ / "source/acme~nfs/nfs"));
}

TEST_F(FlexDriversTest, ADriverStaysWhileAKubeletHasAVolumeOfItMounted) {
  ASSERT_TRUE(Install(Make("acme~nfs/nfs", "1")).ok());
  const auto mount_at = [](const std::string& path) {
    return platform::MountEntry{.mount_point = path};
  };
  const std::string of_pod = "/var/lib/kubelet/pods/uid-1/volumes/acme~nfs/data";
  const std::string of_device =
      "/var/lib/kubelet/plugins/kubernetes.io/flexvolume/acme/nfs/mounts/pv-1";
  for (const std::string& path : {of_pod, of_device}) {
    const auto refused = Remove("acme/nfs", {mount_at("/"), mount_at(path)});
    EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(base::Message(refused.status()), HasSubstr(path));
  }
  EXPECT_EQ(Read("acme~nfs/nfs"), "1");
  // Neither another driver's volumes nor those of a Berth, which has a copy of the driver.
  EXPECT_TRUE(Remove("acme/nfs", {mount_at("/var/lib/kubelet/pods/uid-1/volumes/acme~nfs2/data"),
                                  mount_at("/srv/berth/kubelet/pods/uid-1/volumes/acme~nfs/data")})
                  .ok());
  ASSERT_TRUE(Install(Make("acme~nfs/nfs", "1")).ok());
  EXPECT_TRUE(
      RemoveFlexDriver(
          {.drivers = drivers_, .driver = "acme/nfs", .mounts = {mount_at(of_pod)}, .now = true})
          .ok());
}

// As on Talos and in k3d, where the kubelet has a mount namespace of its own.
TEST_F(FlexDriversTest, ADriverStaysWhileAVolumeIsMountedWhereOnlyTheKubeletSeesIt) {
  ASSERT_TRUE(Install(Make("acme~nfs/nfs", "1")).ok());
  const auto run = [&](int pid, const std::string& name, const std::string& at) {
    const std::string process = fmt::format("{}/proc/{}", folder_ / "root", pid);
    fs::create_directories(process);
    std::ofstream(process + "/comm") << name << "\n";
    std::ofstream(process + "/cmdline") << "/usr/bin/" << name << '\0';
    std::ofstream(process + "/status") << "Name:\t" << name << "\nUid:\t0\t0\t0\t0\n";
    std::ofstream(process + "/mountinfo") << "31 1 8:1 / " << at << " rw - ext4 /dev/sda1 rw\n";
  };
  const std::string of_pod = "/var/lib/kubelet/pods/uid-1/volumes/acme~nfs/data";
  FlexRemoveOptions options{
      .drivers = drivers_, .driver = "acme/nfs", .mounts = {}, .root = folder_ / "root"};
  run(7, "kubelet", of_pod);
  const auto refused = RemoveFlexDriver(options);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused.status()), HasSubstr(of_pod));
  // A kubelet whose mounts cannot be read may have some.
  std::ofstream(folder_ / "root/proc/7/mountinfo") << "no table\n";
  EXPECT_FALSE(RemoveFlexDriver(options).ok());
  run(7, "kubelet", "/var/lib/kubelet");
  run(8, "other", of_pod);
  EXPECT_TRUE(RemoveFlexDriver(options).ok());
}

}  // namespace
}  // namespace berth::cli
