// The plugin for iscsi: a LUN of an iSCSI target, by the kernel's initiator and open-iscsi.
//
//   no session ─▶ discovery ─▶ node record, with CHAP ─▶ login ─▶ scan for the LUN ─▶ device
//   unmap: the LUN's device is removed; the last LUN of a target logs out, and its record goes
//
// A session that was there before stays, because it is somebody else's. Nobody may reach a LUN by
// the login of another: a volume that a pod names itself uses only sessions of its own namespace.
// A login that fails, or whose end is not known, leaves no record, unless it has made a session. A
// record that a killed call left goes with the next failure at its portal, or with the unmap.
// The secrets of CHAP are written into open-iscsi's records by a script that gets them as a file,
// because iscsiadm takes them only as arguments. The records are where iscsiadm runs; in the mount
// pod of deploy/mount-pod/iscsi they are on a tmpfs.
#pragma once

#include <string>
#include <vector>

#include "base/key_locks.h"
#include "volume/remote/disk_plugin.h"
#include "volume/remote/iscsi_records.h"
#include "volume/remote/iscsi_sessions.h"

namespace berth::volume {

class IscsiPlugin : public DiskPlugin {
 public:
  explicit IscsiPlugin(Host& host) : DiskPlugin(host, "kubernetes.io/iscsi", "iscsi") {}

 protected:
  StatusOr<Disk> ReadDisk(const VolumeSpec& spec) const override;
  StatusOr<std::string> MapDisk(const api::Pod& pod, const VolumeSpec& spec, const Disk& disk,
                                DiskMark& mark) override;
  Status UnmapDisk(const DiskMark& mark) override;

 private:
  using Secrets = ChapSecrets;

  // A target as the volume names it.
  struct Target {
    std::string name;
    std::vector<std::string> portals;  // with ports
    std::string interface;
    std::string initiator;  // empty: the node's own
    int lun = 0;
    bool chap_discovery = false, chap_session = false;
    Secrets secrets;
  };
  static Target ReadTarget(const Json& source);
  // The interface by which the volume logs in.
  static std::string InterfaceOf(const Target& target, const std::string& volume);
  StatusOr<Secrets> ReadSecrets(const api::Pod& pod, const VolumeSpec& spec);
  StatusOr<std::vector<IscsiSession>> ListSessions(const std::string& target);
  // Whether a volume of this node that the disk's volume may share with has made the sessions with
  // the disk's target; false: somebody else did. FAILED_PRECONDITION: the disk's volume must not
  // use them.
  StatusOr<bool> MayShare(const DiskMark& mark) const;
  // iscsiadm for the record of a portal's discovery.
  StatusOr<std::string> RunOnDiscovery(const Target& target, const std::string& portal,
                                       const std::vector<std::string>& more);
  // Appends lines to open-iscsi's record, of which `pattern` is the path below its folder.
  Status AppendToRecord(const std::string& pattern, const std::string& lines);
  Status MakeInterface(Target& target, const std::string& volume);
  Status Login(const Target& target, const std::string& portal);
  // Login without what it does after a failure.
  Status TryLogin(const Target& target, const std::string& portal);
  // Removes open-iscsi's records of the portal, which may hold secrets. OK if there are none.
  // INTERNAL: iscsiadm keeps the record of a login by which there is a session.
  Status RemoveRecords(const Target& target, const std::string& portal);
  Status RemoveNodeRecord(const Target& target, const std::string& portal);
  Status DropDiscovery(const std::string& portal);
  // Removes the records of the volume's logins that have no session: a call that was killed in the
  // midst, or an earlier boot, has left them.
  Status RemoveLeftRecords(const DiskMark& mark, const std::vector<IscsiSession>& sessions);
  // The portals of the target at which none of the sessions is.
  static std::vector<std::string> FindMissing(const Target& target,
                                              const std::vector<IscsiSession>& sessions);
  // Logs in to the portals that are missing. OK if at least one portal has a session.
  Status LoginToPortals(Target target, const std::string& volume,
                        const std::vector<std::string>& missing);
  // The path of the device, once a session shows the LUN. NOT_FOUND: none does within some seconds.
  StatusOr<std::string> FindLun(const Target& target);
  Status RemoveLun(const std::string& target, int lun);
  Status Logout(const IscsiSession& session);

  // By target: who finds no session and logs in excludes others who would then use that session,
  // and who logs out excludes those who would begin to use it.
  base::KeyLocks targets_;
};

}  // namespace berth::volume
