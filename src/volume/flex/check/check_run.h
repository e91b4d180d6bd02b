// One check of a driver, from init to the search for processes, mounts and loop devices that it
// left (driver_check.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "volume/flex/check/checked_calls.h"
#include "volume/flex/check/driver_check.h"
#include "volume/flex/check/finding.h"
#include "volume/flex/check/scratch.h"

namespace berth::volume {

class CheckRun {
 public:
  // Borrows all.
  CheckRun(platform::Exec& exec, const DriverCheckOptions& options, Scratch& scratch);

  DriverCheckReport Run();

 private:
  // A use of the scratch volume by a pod.
  struct Use {
    bool read_only = false;
    std::string device;         // as waitforattach gave it
    std::string device_folder;  // empty: the driver does not attach
    std::string pod_folder;
  };
  enum class Outcome { kDone, kNotSupported, kFailed };

  // The scratch volume's options for a call; `of_mount` adds those that only mount gets.
  DriverOptions OptionsFor(bool read_only, bool of_mount) const;
  base::StatusOr<DriverReply> CallDriver(const std::string& command,
                                         std::vector<std::string> arguments,
                                         const SecretWords& secrets = {});
  // As Call, but a failure is a finding.
  Outcome MustSucceed(const std::string& command, const std::vector<std::string>& arguments,
                      std::string_view rule, std::string_view why, DriverReply* reply = nullptr);
  Outcome MustSucceed(const std::string& command, const std::vector<std::string>& arguments,
                      std::string_view rule, std::string_view why, const SecretWords& secrets,
                      DriverReply* reply);

  bool CheckInit();
  void CheckUnknownCommand();
  void CheckVolumeName();
  bool CheckAttach();
  void CheckDetach();

  // These return whether the volume can be used; `twice`: make each call again, as after a crash.
  bool SetUp(Use& use, bool twice);
  bool MountDevice(Use& use, bool twice);
  bool MountDevicePlainly(Use& use);
  bool MountForPod(const Use& use, bool twice);
  bool CheckMounted(const std::string& command, const std::string& folder, bool again);
  bool TearDown(const Use& use, bool twice);
  bool Unmount(const std::string& command, const std::string& folder, bool twice);

  // The phases.
  void CheckReadAndWrite();
  bool WriteData(const Use& use);
  void CheckData(const Use& use);
  void CheckExpand(const Use& use);
  bool CanGrowMounted(const std::string& folder);
  void CheckReadOnly();
  void CheckFailingMount();
  void CheckUnmountOfNothing();
  void CheckLeftovers();

  std::string PodFolder(std::string_view pod) const;
  void CheckNoProcesses(const std::string& after);

  const DriverCheckOptions& options_;
  Scratch& scratch_;
  Findings findings_;
  CheckedCalls calls_;
  platform::Exec& exec_;
  const std::string volume_;
  const std::string secret_;
  DriverCapabilities capabilities_;
  // Whether the driver answers an unknown command with "Not supported", so that its answers to
  // optional commands can be trusted.
  bool knows_not_supported_ = false;
  std::string attached_device_;
  std::vector<std::string> supported_;
};

}  // namespace berth::volume
