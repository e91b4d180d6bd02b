// The kit against right drivers, those of examples/flexvolume, and wrong ones, each with one fault
// (tests/flex/wrong), which says in its third line by what it is to be found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "platform/files/fake_temp_folder.h"
#include "platform/processes/capabilities.h"
#include "volume/flex/check/driver_check.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::Contains;
using testing::IsEmpty;
namespace fs = std::filesystem;

const fs::path& Source() {
  static const fs::path root =
      fs::path(__FILE__).parent_path().parent_path().parent_path().parent_path().parent_path();
  return root;
}

std::vector<std::string> Wrong() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(Source() / "tests/flex/wrong")) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class DriverCheckRootTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: drivers mount, which needs root";
    // A wrong driver may write beside itself.
    fs::copy(Source() / "tests/flex", folder_ / "flex", fs::copy_options::recursive);
  }
  DriverCheckReport Check(const std::string& executable, const std::string& driver,
                          const std::string& fs_type = "xfs") {
    DriverCheckOptions options{
        .executable = executable,
        .driver = driver,
        // 320M is the least that XFS is made on.
        .options = {{"folder", "{scratch}"}, {"size", fs_type == "xfs" ? "320M" : "64M"}},
        .fs_type = fs_type,
        .scratch = folder_.path()};
    // On a machine that is busy none is too slow but those that are meant to be.
    options.slow_init = std::chrono::hours(1);
    if (executable.ends_with("/init_is_slow")) options.slow_init = std::chrono::milliseconds(500);
    if (executable.ends_with("/hangs")) options.deadline = std::chrono::seconds(5);
    const auto exec = platform::NewHostExec();
    const auto report = CheckDriver(*exec, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : DriverCheckReport();
  }
  static std::vector<std::string> Rules(const DriverCheckReport& report) {
    std::vector<std::string> rules;
    for (const Finding& finding : report.findings) {
      rules.push_back(finding.rule + " " + finding.call);
    }
    return rules;
  }
  static std::vector<std::string> Faults(const DriverCheckReport& report) {
    std::vector<std::string> faults;
    for (const Finding& finding : report.findings) {
      if (finding.weight == Finding::Weight::kFault) {
        faults.push_back(finding.rule + " " + finding.call + ": " + finding.words);
      }
    }
    return faults;
  }

  const platform::TempFolder folder_;
};

TEST_F(DriverCheckRootTest, AShellDriverThatAttachesIsRight) {
  const auto report = Check(Source() / "examples/flexvolume/images/images", "example.com/images");
  EXPECT_THAT(Faults(report), IsEmpty());
  for (const char* call : {"attach", "isattached", "waitforattach", "mountdevice", "expandvolume",
                           "expandfs", "unmountdevice", "detach"}) {
    EXPECT_THAT(report.calls, Contains(call));
  }
}

TEST_F(DriverCheckRootTest, WhatTheMachineForbidsIsNoFaultOfTheDriver) {
  const auto report =
      Check(Source() / "examples/flexvolume/images/images", "example.com/images", "ext4");
  EXPECT_THAT(Faults(report), IsEmpty());
  if (platform::HasCapability(CAP_SYS_RESOURCE)) {
    EXPECT_THAT(Rules(report), IsEmpty());
    return;
  }
  ASSERT_THAT(Rules(report), testing::ElementsAre("lacks-capability expandfs"));
  EXPECT_THAT(report.findings[0].words, testing::HasSubstr("CAP_SYS_RESOURCE"));
}

TEST_F(DriverCheckRootTest, AStaticDriverThatDoesNotAttachIsRight) {
  const fs::path program = fs::canonical("/proc/self/exe").parent_path() / "folders";
  if (!fs::exists(program)) GTEST_SKIP() << "skipped: 'flex_folders' is not built";
  const auto report = Check(program, "example.com/folders");
  EXPECT_THAT(Faults(report), IsEmpty());
  EXPECT_THAT(report.calls, testing::ElementsAre("init", "mount", "unmount"));
}

TEST_F(DriverCheckRootTest, NothingIsLeftOfACheck) {
  Check(folder_ / "flex/wrong/leaves_loop_devices", "wrong/loops");
  Check(folder_ / "flex/wrong/leaves_mounts", "wrong/mounts");
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().filename(), "flex");
  }
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    EXPECT_EQ(line.find(folder_.path()), std::string::npos) << line;
  }
}

TEST_F(DriverCheckRootTest, WhatIsNoDriverIsRefused) {
  const auto exec = platform::NewHostExec();
  EXPECT_EQ(CheckDriver(*exec, {.executable = folder_ / "none"}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(CheckDriver(*exec, {.executable = folder_.path()}).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(CheckDriver(*exec, {.executable = folder_.SparseFile("plain", 1)}).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(DriverName, IsInTheFoldersName) {
  EXPECT_EQ(DriverNameOf("/x/acme~nfs/nfs"), "acme/nfs");
  EXPECT_EQ(DriverNameOf("/x/nfs/nfs"), "nfs");
  EXPECT_EQ(DriverNameOf("/x/acme~nfs/other"), "other");
}

class WrongDriver : public DriverCheckRootTest, public testing::WithParamInterface<std::string> {};

TEST_P(WrongDriver, IsFoundByItsOwnFault) {
  const std::string path = folder_ / ("flex/wrong/" + GetParam());
  std::ifstream file(path);
  std::string line;
  for (int i = 0; i < 3; ++i) std::getline(file, line);
  constexpr std::string_view kRule = "# Rule: ";
  ASSERT_TRUE(line.starts_with(kRule)) << line;
  const auto rules = Rules(Check(path, "wrong/driver"));
  EXPECT_THAT(rules, testing::ElementsAre(line.substr(kRule.size())));
}

INSTANTIATE_TEST_SUITE_P(All, WrongDriver, testing::ValuesIn(Wrong()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace berth::volume
