// The interface of a storage cluster's back end, which makes images, and maps them to devices of
// this node.
//
// An image is identified by its name, which the caller chooses (a PersistentVolume's name) and
// which becomes part of paths and export names: lower-case letters, digits, '-' and '.', at most
// 253 bytes, beginning with a letter or digit. INVALID_ARGUMENT: the name is not of this form.
//
// Locks are the second fence beside the VolumeFence objects: a mapping holds a lock of the image as
// long as the kernel has the device, even if the process that made the mapping ends. The lock is
// exclusive for a writer and shared for readers. So HasLock tells whether any node may still write,
// if the back end can know that, and if ProveLocks says that the lock of that node would be seen.
//
// All calls are idempotent, and none blocks for ever, because an operation that may hang runs in a
// child process with a deadline. Thread-safe; two calls for one image exclude each other: the
// second one may get ABORTED.
//
// Failures: UNIMPLEMENTED: the back end cannot do that at all; the message says what to do instead.
// UNAVAILABLE, DEADLINE_EXCEEDED: the outcome is unknown. DATA_LOSS: the image is not the recorded
// one; the call does not touch it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/json.h"
#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::block {

struct ImageInfo {
  std::string name;
  int64_t size_bytes = 0;
  std::string snapshot_of;  // of a snapshot: the image; else empty
};

struct NewImage {
  std::string name;
  int64_t size_bytes = 0;
  std::string source;  // an image or snapshot of the same back end to copy; empty: none
};

struct MapOptions {
  bool read_only = false;
  // Several nodes may write at once: the image holds a file system that is made for that.
  bool shared_writers = false;
};

// A device of this node that shows an image.
struct Mapping {
  std::string image;
  std::string device;  // "/dev/loop3", "/dev/nbd0"
  uint64_t device_number = 0;
  int64_t size_bytes = 0;
  bool read_only = false;
  // What the back end needs to identify the mapping after a restart. It is opaque, and the agent
  // keeps it in its record.
  base::Json state = base::Json::object();
};

enum class SnapshotSupport {
  kNone,      // CreateSnapshot gives UNIMPLEMENTED
  kOfUnused,  // it makes snapshots of images that nobody writes to
  // It also makes snapshots of images that a node is writing to. Their data is of one moment
  // between two writes, as if the node had lost its power then.
  kOfAny
};

class Backend {
 public:
  virtual ~Backend() = default;

  // --- The images; where the images are reached (the operator) ---

  // Makes the image with at least `wanted.size_bytes`, or gives the one that was made before, also
  // if it has grown since. Its name begins with the wanted one, and is the name for all other
  // calls. Only Delete also knows it by the wanted name, as long as no PersistentVolume names it.
  // ALREADY_EXISTS: the image was made with another size or source. NOT_FOUND: there is no such
  // source. FAILED_PRECONDITION: the source may be written to now. OUT_OF_RANGE: the source is
  // larger than the image.
  virtual base::StatusOr<ImageInfo> Create(const NewImage& wanted) = 0;
  // Deletes an image or snapshot; OK also if it does not exist. FAILED_PRECONDITION: it has a lock.
  virtual base::Status Delete(const std::string& image) = 0;
  // Makes a consistent copy that never changes, or gives the one that was made before.
  // It does not need the image later, and Create takes it as a source. ALREADY_EXISTS: `snapshot`
  // is an image, or a snapshot of another image. NOT_FOUND: there is no such image.
  // FAILED_PRECONDITION: the image may be written to now, and the back end cannot copy it
  // meanwhile.
  virtual base::StatusOr<ImageInfo> CreateSnapshot(const std::string& image,
                                                   const std::string& snapshot) = 0;
  // Says of which images CreateSnapshot makes snapshots.
  virtual SnapshotSupport OffersSnapshots() const { return SnapshotSupport::kOfUnused; }
  // Grows the image to at least `size_bytes`. Refresh on its node then grows the device. NOT_FOUND:
  // there is no such image. FAILED_PRECONDITION: it is a snapshot.
  virtual base::StatusOr<ImageInfo> Grow(const std::string& image, int64_t size_bytes) = 0;
  // All images and snapshots that are complete.
  virtual base::StatusOr<std::vector<ImageInfo>> List() = 0;

  // --- The fence ---

  // Whether mappings hold locks at all, so that Map refuses an image that another node has mapped.
  virtual bool KeepsLocks() const { return true; }
  // Whether some process or device, on any node, holds a lock of the image. UNIMPLEMENTED: this
  // back end cannot know.
  virtual base::StatusOr<bool> HasLock(const std::string& image) = 0;
  // Whether that mapping of this node is sound and itself holds the lock of its image, so that no
  // other node can have the image mapped in a way that conflicts. UNIMPLEMENTED: this back end
  // cannot know, which is so if the back end does not say otherwise.
  virtual base::StatusOr<bool> HoldsLock(const Mapping& mapping);
  // Lets this node and others see each other's locks, and notes whose locks this node sees, because
  // the absence of a lock proves something only about nodes whose locks would be seen. Shows a lock
  // of this node as long as this object lives, and removes it with LeaveLocks. `life` is the uid of
  // the StorageCluster. Call it before Map, and again from time to time. FAILED_PRECONDITION: locks
  // of the back end do not reach other nodes, so that it must not be used; the message says why.
  // RESOURCE_EXHAUSTED: it has no room to show the lock or to note others; images can be used, but
  // a node whose lock was never seen is not proven gone.
  virtual base::Status ExchangeLocks(const std::string& /*life*/) { return base::OkStatus(); }
  virtual void LeaveLocks(const std::string& /*life*/) {}
  // OK: if HasLock gives false, `node` cannot write to the image. UNIMPLEMENTED: the back end
  // cannot know that of any node. FAILED_PRECONDITION: the locks of this node were never seen.
  virtual base::Status ProveLocks(const std::string& life, const api::NodeName& node) = 0;
  // When the lock of a node that died lapses, for people; "": it is not known.
  virtual std::string DescribeLapse() { return ""; }
  // Whether Fence works, so that the storage itself refuses the writes of a node that lost its use
  // of a volume, and nobody has to prove that the node is silent.
  virtual bool FencesNodes() const { return false; }
  // The clients by which the node has the image now, as Fence wants them. Each use of an image is a
  // client of its own, and no name is used twice. Empty also if there is no such image.
  // UNIMPLEMENTED: this back end cannot fence.
  virtual base::StatusOr<std::vector<std::string>> FindClients(const std::string& image,
                                                               const api::NodeName& node);
  // Fences exactly these clients of the node: the storage refuses everything that they write later,
  // until Unfence. A use that the node begins later is another client, which this call does not
  // hit, however late the call is. So the caller lists the clients first, then makes sure that the
  // node has no right to the image, and then fences. Clients that have ended are fenced, too.
  // UNIMPLEMENTED: this back end cannot do that. After any other failure the node may still write.
  virtual base::Status Fence(const std::string& image, const api::NodeName& node,
                             const std::vector<std::string>& clients) = 0;
  // Ends what serves the image on this node although no device shows it, as an agent leaves it that
  // died while it unmapped. OK if nothing does. Asks nothing of the storage. DATA_LOSS: writes that
  // were answered may be lost, which each call tells until somebody gives them up. With
  // `force_within` they are given up: nothing is flushed any more, as by ForceUnmap, whose patience
  // it is. After any other failure a process may live that was killed, and send what it has begun.
  virtual base::Status EndUnshown(const std::string& /*image*/,
                                  std::optional<std::chrono::milliseconds> /*force_within*/) {
    return base::OkStatus();
  }
  // Takes from the image what a process of this node held that was killed, or ended with an earlier
  // boot, and that could not give it back. Call it only when this node has no mapping of the image,
  // and after ForceUnmap, which does not ask the storage. OK also if there is nothing, or no such
  // image, as always where the kernel frees a lock with its process.
  virtual base::Status FreeFromDead(const std::string& /*image*/) { return base::OkStatus(); }
  // The fences that stand, by node: the clients that Fence has shut out and Unfence has not let in
  // again. The storage keeps this list itself, so that no fence gets lost.
  virtual base::StatusOr<std::map<std::string, std::vector<std::string>>> ListFenced() {
    return std::map<std::string, std::vector<std::string>>();
  }
  // Removes exactly these fences of the node. Call it only when the node has taken off every use
  // that was fenced. A fence that is made meanwhile stays, because its client is not in `clients`.
  virtual base::Status Unfence(const api::NodeName& node, const std::vector<std::string>& clients);

  // --- A file system that mkfs has not finished ---

  // Notes durably with the image that mkfs is making the file system `uuid` in it, and that it was
  // never mounted. So the next user of the image, on any node, may run mkfs again. An empty `uuid`
  // removes the note. NOT_FOUND: there is no such image. UNIMPLEMENTED: this back end keeps no
  // notes with its images.
  virtual base::Status NoteFormatting(const std::string& image, const std::string& uuid) = 0;
  // The UUID that NoteFormatting noted; empty: none. It is valid only while the image is mapped for
  // writing here, because else another node may use the file system by now. UNIMPLEMENTED as above.
  virtual base::StatusOr<std::string> ReadFormatting(const std::string& image) = 0;

  // --- The devices of this node ---

  // Gives the device that shows the image, and makes one if there is none. NOT_FOUND: there is no
  // such image. FAILED_PRECONDITION: another holder has the image's lock, or the image is mapped
  // here in a way that does not fit `options`. Never gives a device that shows anything else.
  virtual base::StatusOr<Mapping> Map(const std::string& image, const MapOptions& options) = 0;
  // nullopt: the image is not mapped here.
  virtual base::StatusOr<std::optional<Mapping>> FindMapping(const std::string& image) = 0;
  // All mappings of this node.
  virtual base::StatusOr<std::vector<Mapping>> ListMappings() = 0;
  // Checks that the device still serves the image's blocks. DATA_LOSS: it does not and never will
  // again; the message tells people what happened and what to do. After any other failure, it is
  // not known.
  virtual base::Status Check(const Mapping& mapping);
  // Gives the device the present size of the image, and returns the mapping with that size.
  // NOT_FOUND: the device no longer is that mapping. UNIMPLEMENTED: only a new mapping gets the
  // size.
  virtual base::StatusOr<Mapping> Refresh(const Mapping& mapping) = 0;
  // Removes the device, and gives back what the mapping held, also if the process that served it
  // has died. OK if it no longer is that mapping. FAILED_PRECONDITION: something has the device
  // open.
  virtual base::Status Unmap(const Mapping& mapping) = 0;
  // Unmaps by force, even if something has the device open or the back end does not answer: writes
  // fail from then on. `patience` is how long each step may take by itself. On any error, the
  // programs that have the device open may still write, or the process that serves the device may
  // live and still send what it has begun, even if the device is gone: call it again.
  virtual base::Status ForceUnmap(const Mapping& mapping, std::chrono::milliseconds patience) = 0;
};

// The DATA_LOSS that Check gives.
base::Status NoLongerShownError(const Mapping& mapping);

// Reads the decoded data of a Secret from the API now. NOT_FOUND: there is no such Secret. No
// message holds a value.
using SecretReader = std::function<base::StatusOr<std::map<std::string, std::string>>(
    const std::string& ns, const std::string& name)>;

// Gives the images that the PersistentVolumes of the block agent name now, as the API has them.
using ImageLister = std::function<base::StatusOr<std::vector<std::string>>()>;

// What every back end needs. It borrows `exec` and `mounter`.
struct BackendParts {
  platform::Exec& exec;
  platform::Mounter& mounter;
  // The socket of `berth io-proxy` on this node; empty: there is none.
  std::string proxy_socket;
  // The name of this node. A back end uses it to ignore devices that the agent of another node made
  // on the same kernel, as happens in tests.
  std::string node;
  // Where a back end gets the Secret that its settings name. A back end keeps what it reads in
  // memory for seconds, and never on disk.
  SecretReader read_secret = nullptr;
  // Of the operator alone. A back end whose images cannot be named uses it to give none away twice.
  ImageLister list_images = nullptr;
};

// Makes the back end that a StorageCluster's spec.backend describes: an object with one member,
// whose name is the type. Without `access`, it is Loop or Auto.
//   {"images": {"folder": "/srv/pool", "access": "Loop" | "Proxy"}}
//   {"nbd": {"server": "10.0.0.5:10809" | "unix:/run/nbd.sock", "folder": "/srv/exports",
//            "access": "Kernel" | "Proxy" | "Auto"}}
//       `folder` has the server's images; without it, Create, Delete, CreateSnapshot, Grow, List
//       and HasLock give UNIMPLEMENTED, because images are then managed at the server
//   {"rbd": {"monitors": ["10.0.0.5:6789"], "pool": "kube", "namespace": "", "user": "kube",
//            "secretRef": {"name": "ceph", "namespace": "berth-block"},
//            "access": "Kernel" | "Proxy" | "Auto"}}
//   {"iscsi": {"portals": ["10.0.0.5:3260"], "target": "iqn.2003-01.org.example:t",
//              "luns": {"allow": ["naa.6001405…/serial"], "reclaim": "Wipe" | "Keep"},
//              "initiator": "", "chapSecretRef": {"name": "san", "namespace": "berth-block"},
//              "access": "Proxy" | "Auto"}}
// INVALID_ARGUMENT names the member that is wrong.
base::StatusOr<std::unique_ptr<Backend>> OpenBackend(const base::Json& settings,
                                                     const BackendParts& parts);

// Whether an image of one name may be the same image by both settings, which are those of two
// StorageClusters, as OpenBackend takes them. False only if the settings show that it is not: other
// types, folders or servers, or another pool or namespace of Ceph. Lists of monitors show nothing,
// because two lists of one Ceph cluster may have no member in common. The image of an iSCSI target
// names its LUN, which several targets may show.
bool MayBeSameStore(const base::Json& one, const base::Json& other);

// Whether back ends with such settings fence nodes (Backend::FencesNodes), so that the storage may
// keep fences. The type alone tells, so this also holds for a back end that cannot be opened. False
// for a type that is not known here, because no node can have used it.
bool KeepsFences(const base::Json& settings);

// Says, for people, how the storage's administrator takes fences off without Berth. `clients` are
// those of ListFenced; none: they are not known. "": back ends with such settings keep no fences.
std::string DescribeUnfence(const base::Json& settings, const std::vector<std::string>& clients);

}  // namespace berth::block
