// A process that makes, grows, copies and removes images of a folder is killed at each of its fault
// points in turn, or the step fails. The next process must find whole images, and the same work
// must then succeed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/fault.h"
#include "block/images/image_folder.h"
#include "block/sizes.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::block {
namespace {

constexpr int kWorkFailed = 3;

// Each step idempotent, as the operator repeats it.
base::Status Work(const std::string& folder) {
  ImageFolder images(folder);
  RETURN_IF_ERROR(images.Create({.name = "a", .size_bytes = kMiB}));
  RETURN_IF_ERROR(images.CreateSnapshot("a", "s"));
  RETURN_IF_ERROR(images.Create({.name = "copy", .size_bytes = 2 * kMiB, .source = "s"}));
  RETURN_IF_ERROR(images.Grow("copy", 3 * kMiB));
  RETURN_IF_ERROR(images.Delete("copy"));
  return images.Delete("s");
}

int RunInProcess(const std::string& folder, const std::string& faults, const std::string& log) {
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("BERTH_FAULTS", faults.c_str(), 1);
    if (!log.empty()) setenv("BERTH_FAULT_LOG", log.c_str(), 1);
    if (!base::InitFaultPoints().ok()) _exit(kWorkFailed);
    _exit(Work(folder).ok() ? 0 : kWorkFailed);
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

std::set<std::string> FaultPoints() {
  const platform::TempFolder folder;
  const platform::TempFolder logs;
  EXPECT_EQ(RunInProcess(folder.path(), "", logs / "log"), 0);
  std::ifstream log(logs / "log");
  std::set<std::string> names;
  for (std::string line; std::getline(log, line);) names.insert(line);
  return names;
}

// What is listed is there, of the size that is told, and nothing else is.
void ExpectWhole(const std::string& folder) {
  ImageFolder images(folder);
  const auto list = images.List();
  ASSERT_TRUE(list.ok()) << list.status();
  for (const ImageInfo& image : *list) {
    const auto located = images.Locate(image.name);
    EXPECT_TRUE(located.ok()) << located.status();
    struct stat st;
    ASSERT_EQ(stat(images.PathOf(image.name).c_str(), &st), 0);
    EXPECT_EQ(st.st_nlink, 1u);
  }
  EXPECT_EQ(platform::ListFolder(folder)->size(), list->size() + 1);
}

void ExpectToEndWell(const std::string& folder) {
  ExpectWhole(folder);
  const base::Status again = Work(folder);
  EXPECT_TRUE(again.ok()) << again;
  ExpectWhole(folder);
  const auto list = ImageFolder(folder).List();
  ASSERT_TRUE(list.ok() && list->size() == 1) << list.status();
  EXPECT_EQ(list->front().name, "a");
}

TEST(ImageFolderCrashTest, ImagesAreWholeAfterAKillAnywhere) {
  const std::set<std::string> points = FaultPoints();
  ASSERT_GT(points.size(), 8u);
  for (const std::string& point : points) {
    for (int passage = 1; passage <= 5; ++passage) {
      SCOPED_TRACE(fmt::format("{} at passage {}", point, passage));
      const platform::TempFolder folder;
      const int status =
          RunInProcess(folder.path(), fmt::format("{}=crash@{}", point, passage), "");
      if (WIFEXITED(status)) {
        EXPECT_EQ(WEXITSTATUS(status), 0);  // the point is not passed that often
        EXPECT_GT(passage, 1);
        break;
      }
      ExpectToEndWell(folder.path());
    }
  }
}

TEST(ImageFolderCrashTest, AStepThatFailsIsTakenBackAndWorksWhenRepeated) {
  for (const std::string& point : FaultPoints()) {
    SCOPED_TRACE(point);
    const platform::TempFolder folder;
    const int status = RunInProcess(folder.path(), point + "=error", "");
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kWorkFailed);
    ExpectToEndWell(folder.path());
  }
}

}  // namespace
}  // namespace berth::block
