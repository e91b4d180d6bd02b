// Makes btrfs file systems for tests of btrfs_devices.h.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/assert_ok.h"
#include "base/ids.h"
#include "platform/processes/exec.h"

namespace berth::platform {

class BtrfsTest : public testing::Test {
 protected:
  void Run(std::vector<std::string> argv) {
    ASSERT_OK(RunOk(*exec_, {.argv = std::move(argv)}).status());
  }
  void Format(const std::vector<std::string>& devices) {
    std::vector<std::string> argv = {"mkfs.btrfs", "-q",     "-f", "-d", "single",
                                     "-m",         "single", "-U", uuid_};
    argv.insert(argv.end(), devices.begin(), devices.end());
    Run(std::move(argv));
  }

  const std::string uuid_ = base::NewUuid();
  const std::unique_ptr<Exec> exec_ = NewHostExec();
};

}  // namespace berth::platform
