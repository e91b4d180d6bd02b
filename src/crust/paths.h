// The paths of the handler's files. No other file spells them.
//
//   <data>/                 /var/lib/berth/crust
//     lock                  one handler at a time
//     holders/              a private mount
//       <id>                the sandbox's mount namespace, bound there (nsfs)
//     utilities/            a private mount: where mount utilities mount (utility_mount.h)
//     guest.cpio            what virtual machines boot (machine/guest_image.h)
//     kata/                 the files of the handler in front of Kata (kata/volume_table.h)
//   <run>/                  /run/berth/crust: base/ipc/crust_call.h draws the rest of it
//     records/
//       sandboxes/<id>.json what is known of each sandbox (records/sandbox_records.h)
//       pods/<uid>.json     the volumes that all sandboxes of a pod get (records/pod_records.h)
//       machines/<id>.json  the virtual machine of a sandbox (machine/machine_record.h)
//     machines/<hash>/      its sockets and its log (machine/machine.h)
#pragma once

#include <string>
#include <string_view>

namespace berth::crust {

class Paths {
 public:
  Paths(std::string data, std::string run) : data_(std::move(data)), run_(std::move(run)) {}

  const std::string& run() const { return run_; }
  std::string LockFile() const { return data_ + "/lock"; }
  std::string RecordFolder() const { return run_ + "/records/sandboxes"; }
  std::string PodFolder() const { return run_ + "/records/pods"; }
  // Where earlier versions kept these records.
  std::string FormerRecordFolder() const { return data_ + "/sandboxes"; }
  std::string FormerPodFolder() const { return data_ + "/pods"; }
  std::string HolderFolder() const { return data_ + "/holders"; }
  std::string UtilityFolder() const { return data_ + "/utilities"; }
  // Of sandboxes that are virtual machines: their records, their folders, and the image that they
  // boot.
  std::string MachineRecordFolder() const { return run_ + "/records/machines"; }
  std::string MachineFolder() const { return run_ + "/machines"; }
  std::string GuestImage() const { return data_ + "/guest.cpio"; }
  // Folders of the pods' plans and of the sandboxes' marks (base/ipc/crust_call.h).
  std::string PlanFolder() const { return run_ + "/plans"; }
  std::string MarkFolder() const { return run_ + "/sandboxes"; }

 private:
  const std::string data_;
  const std::string run_;
};

}  // namespace berth::crust
