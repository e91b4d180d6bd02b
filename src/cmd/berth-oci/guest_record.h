// What this program knows of a container in a guest, in <root>/<id>/guest.json. The container's
// stand-in holds a lock on the file for as long as it lives, so that nobody takes another process
// with its pid for it.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/ipc/result.h"

namespace berth::oci {

struct GuestRecord {
  std::string sandbox;
  std::string bundle;
  bool is_sandbox = false;
};

// The file's path. "": `id` cannot be the name of a folder.
std::string GuestRecordPath(const std::string& root, const std::string& id);

// kRefused: there is one already.
base::ipc::Failure WriteGuestRecord(const std::string& path, const GuestRecord& record);
// kNobody: there is none, so the container runs on the host.
base::ipc::Result<GuestRecord> ReadGuestRecord(const std::string& path);
// Removes the file and its folder.
void RemoveGuestRecord(const std::string& path);

// Locks the record for this process until its end. The descriptor must stay open.
base::ipc::Result<int> LockGuestRecord(const std::string& path);
// The pid of the stand-in; 0: it has ended.
pid_t FindStandIn(const std::string& path);

}  // namespace berth::oci
