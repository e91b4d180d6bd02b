#include "volume/flex/driver_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "volume/flex/fake_driver_folder.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DriverFolderTest : public testing::Test {
 protected:
  DriverScan Scan(const DriverLimits& limits = {}) {
    const auto drivers = OpenDrivers(folder_.path());
    EXPECT_TRUE(drivers.ok());
    auto scan = ScanDrivers(drivers->get(), limits);
    EXPECT_TRUE(scan.ok()) << scan.status();
    return *std::move(scan);
  }
  std::vector<std::string> Drivers(const DriverLimits& limits = {}) {
    std::vector<std::string> names;
    for (const DriverFolder& found : Scan(limits).drivers) names.push_back(found.driver);
    return names;
  }
  // Why the one folder beside "good" is left out.
  base::Status LeftOut(const std::string& folder, const DriverLimits& limits = {}) {
    folder_.Install("good", "hello");
    const DriverScan scan = Scan(limits);
    EXPECT_EQ(scan.drivers.size(), 1u);
    EXPECT_EQ(scan.left_out.size(), 1u);
    return scan.left_out.contains(folder) ? scan.left_out.at(folder) : base::OkStatus();
  }
  const FakeDriverFolder folder_;
};

TEST_F(DriverFolderTest, FindsDriversWithAndWithoutAVendor) {
  folder_.Install("example.com~fast", "fast");
  folder_.Install("nfs", "nfs");
  folder_.Put("README", "not a folder", 0644);
  const DriverScan scan = Scan();
  ASSERT_EQ(scan.drivers.size(), 2u);
  EXPECT_EQ(scan.drivers[0].driver, "example.com/fast");
  EXPECT_EQ(scan.drivers[0].folder, "example.com~fast");
  EXPECT_EQ(scan.drivers[0].executable().path, "fast");
  EXPECT_EQ(scan.drivers[1].driver, "nfs");
  EXPECT_THAT(scan.left_out, IsEmpty());
}

TEST_F(DriverFolderTest, DotNamesAreIgnored) {
  folder_.Install("nfs", "nfs");
  folder_.Install(".hidden", "hidden");
  folder_.Put("nfs/.part", "half", 0755);
  folder_.Put("nfs/lib/.part", "half", 0755);
  const DriverScan scan = Scan();
  ASSERT_EQ(scan.drivers.size(), 1u);
  EXPECT_EQ(scan.drivers[0].files.size(), 2u);  // nfs, lib
  EXPECT_THAT(scan.left_out, IsEmpty());
}

TEST_F(DriverFolderTest, ALinkToAFolderIsNoDriver) {
  folder_.Install("good", "hello");
  ASSERT_EQ(symlink("good", (folder_ / "link").c_str()), 0);
  const base::Status why = LeftOut("link");
  EXPECT_EQ(why.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::ToString(why), HasSubstr("symbolic link"));
}

TEST_F(DriverFolderTest, AFolderInsideThatIsALinkIsNotFollowed) {
  folder_.Install("nfs", "nfs");
  ASSERT_EQ(symlink("/etc", (folder_ / "nfs/etc").c_str()), 0);
  const DriverScan scan = Scan();
  ASSERT_EQ(scan.drivers.size(), 1u);
  EXPECT_THAT(scan.drivers[0].files, ElementsAre(testing::Field(&DriverFile::target, "/etc"),
                                                 testing::Field(&DriverFile::path, "nfs")));
}

TEST_F(DriverFolderTest, ALinkThatLeadsElsewhereFromACopyIsRefused) {
  folder_.Install("nfs", "nfs");
  ASSERT_EQ(symlink("../good/good", (folder_ / "nfs/helper").c_str()), 0);
  EXPECT_EQ(LeftOut("nfs").code(), StatusCode::kFailedPrecondition);
}

TEST_F(DriverFolderTest, NamesThatAreNoQualifiedNames) {
  for (const char* name : {"a~b~c", "Vendor~driver", "bad name", "-x", "v~", "~d", "a\nb"}) {
    EXPECT_EQ(DriverOfFolder(name).status().code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(FolderOfDriver(*DriverOfFolder("k8s.io~nfs")), "k8s.io~nfs");
  ASSERT_TRUE(platform::MakeFolders(folder_ / "a~b~c", 0755).ok());
  EXPECT_EQ(LeftOut("a~b~c").code(), StatusCode::kInvalidArgument);
}

TEST_F(DriverFolderTest, AFolderWithoutAnExecutableSaysSo) {
  ASSERT_TRUE(platform::MakeFolders(folder_ / "nfs", 0755).ok());
  EXPECT_EQ(LeftOut("nfs").code(), StatusCode::kNotFound);
  folder_.Put("nfs/nfs", "#!/bin/sh\n", 0644);
  EXPECT_THAT(base::ToString(LeftOut("nfs")), HasSubstr("not executable (mode 0644)"));
  folder_.Put("nfs/nfs", "", 0755);
  EXPECT_THAT(base::ToString(LeftOut("nfs")), HasSubstr("empty"));
  folder_.Remove("nfs/nfs");
  ASSERT_EQ(symlink("/bin/true", (folder_ / "nfs/nfs").c_str()), 0);
  EXPECT_THAT(base::ToString(LeftOut("nfs")), HasSubstr("a symbolic link"));
  folder_.Remove("nfs/nfs");
  ASSERT_TRUE(platform::MakeFolders(folder_ / "nfs/nfs", 0755).ok());
  EXPECT_THAT(base::ToString(LeftOut("nfs")), HasSubstr("a folder"));
}

TEST_F(DriverFolderTest, SocketsAndFifosAreNoPartOfADriver) {
  folder_.Install("nfs", "nfs");
  ASSERT_EQ(mkfifo((folder_ / "nfs/fifo").c_str(), 0600), 0);
  const DriverScan scan = Scan();
  ASSERT_EQ(scan.drivers.size(), 1u);
  EXPECT_EQ(scan.drivers[0].files.size(), 1u);
}

TEST_F(DriverFolderTest, TooLargeTooManyTooDeep) {
  folder_.Install("nfs", "nfs");
  folder_.Put("nfs/big", std::string(5000, 'x'), 0644);
  EXPECT_EQ(LeftOut("nfs", {.bytes = 4096}).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(LeftOut("nfs", {.files = 1}).code(), StatusCode::kResourceExhausted);
  folder_.Put("nfs/a/b/c", "x", 0644);
  EXPECT_EQ(LeftOut("nfs", {.depth = 2}).code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Drivers(), ElementsAre("good", "nfs"));
}

TEST_F(DriverFolderTest, DriversBeyondTheLimitAreLeftOutByName) {
  for (const char* name : {"a", "b", "c"}) folder_.Install(name, name);
  const DriverScan scan = Scan({.drivers = 2});
  EXPECT_EQ(scan.drivers.size(), 2u);
  EXPECT_EQ(scan.left_out.at("c").code(), StatusCode::kResourceExhausted);
  const DriverScan few = Scan({.folders = 2});
  EXPECT_EQ(few.drivers.size(), 2u);
  EXPECT_EQ(few.left_out.at("").code(), StatusCode::kResourceExhausted);
}

TEST_F(DriverFolderTest, AChangeOfAnyFileShows) {
  folder_.Install("nfs", "nfs");
  folder_.Put("nfs/lib/helper", "1", 0644);
  const auto before = Scan().drivers;
  EXPECT_EQ(before, Scan().drivers);
  folder_.Put("nfs/lib/helper", "2", 0644);
  const auto after = Scan().drivers;
  EXPECT_NE(before, after);
  EXPECT_EQ(before[0].executable(), after[0].executable());
}

TEST(OpenDriversTest, NeedsAFolder) {
  EXPECT_EQ(OpenDrivers("/nowhere/at/all").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace berth::volume
