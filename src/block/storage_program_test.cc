#include "block/storage_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/assert_ok.h"
#include "block/progress.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::block {
namespace {

using testing::ElementsAre;

TEST(StorageProgramTest, PassesOnHowFarACallIs) {
  const platform::TempFolder folder;
  const std::string path = folder / "storage";
  std::ofstream(path) << R"(#!/bin/sh
cat >/dev/null
echo '{"progress": 0.25}' >&2
echo 'a warning of the library' >&2
echo '{"progress": "much"}' >&2
echo '{"progress": 1}' >&2
echo '{"done": true}'
)";
  chmod(path.c_str(), 0755);
  const auto exec = platform::NewHostExec();
  const StorageProgram program(*exec, path);
  std::vector<double> parts;
  {
    const ProgressScope scope([&](double part) { parts.push_back(part); });
    ASSERT_OK(program.Call({{"call", "delete"}}, "", std::chrono::minutes(1)));
  }
  EXPECT_THAT(parts, ElementsAre(0.25, 1));
  ASSERT_OK(program.Call({{"call", "delete"}}, "", std::chrono::minutes(1)));
  EXPECT_EQ(parts.size(), 2U);
}

}  // namespace
}  // namespace berth::block
