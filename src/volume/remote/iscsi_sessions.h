// Reads the iSCSI sessions of this node's kernel from the output of `iscsiadm -m session -P 3`.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::volume {

struct IscsiDisk {
  int lun = 0;
  std::string name;  // "sda"
};

struct IscsiSession {
  std::string target;     // the target's name
  std::string portal;     // "10.0.0.7:3260", as it was logged in to
  std::string interface;  // "default"
  std::string id;         // the kernel's number of the session; empty: not known
  std::string host;       // the number of the SCSI host; empty: not known
  std::vector<IscsiDisk> disks;
};

// Lines that it does not know are skipped.
std::vector<IscsiSession> ParseSessions(std::string_view text);

}  // namespace berth::volume
