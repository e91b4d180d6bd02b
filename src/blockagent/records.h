// The records of the volumes that this node has attached: a file for each volume, written before
// each step.
//
//   DATA/block-agent/volumes/NAME.json     NAME is the PersistentVolume's
//
//   (none) ─▶ attaching ─▶ mapped ─▶ mounted ─▶ detaching ─▶ (none)
//
//   attaching   the fence may name this node, and the image may be mapped
//   mapped      the image is mapped to the recorded device; mkfs may run, and it may be mounted
//   mounted     at least one use was mounted
//   detaching   no pod may use the volume here any more; its mounts and device are being removed
//
// A record of an earlier boot names devices and mounts that are gone, but the fence may still name
// the node. Each pod that uses the volume is one of `uses`, with its own state: attaching, mounted
// or detaching.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/mutex.h"
#include "base/status.h"
#include "block/backend.h"
#include "platform/files/record_folder.h"

namespace berth::blockagent {

enum class State { kAttaching, kMapped, kMounted, kDetaching };
std::string_view StateName(State state);

struct Use {
  api::FenceEntry entry;
  State state = State::kAttaching;  // never kMapped
};

struct Record {
  std::string volume;
  std::string volume_uid;  // of the PersistentVolume, for events
  std::string cluster;
  std::string image;
  base::Json backend;  // the StorageCluster's settings, needed also after it is gone
  std::string boot_id;
  State state = State::kAttaching;
  std::string fs_type;  // once it is known
  // UUID of a file system that mkfs is making: a file system with this UUID was never used.
  std::string formatting_uuid;
  std::string shared_mount;  // the path of the mount that pods share; empty: none
  std::optional<block::Mapping> mapping;
  std::vector<Use> uses;

  // nullptr: there is none. The result is valid until `uses` changes.
  Use* Find(const api::FenceEntry& entry);
  Use* FindByFolder(std::string_view mount_dir);
};

base::Json ToJson(const Record& record);
// DATA_LOSS: a member is missing or unknown.
base::StatusOr<Record> FromJson(const base::Json& json);

// Thread-safe, but only one caller at a time may write the record of a volume.
class Records {
 public:
  // Reads all records. DATA_LOSS: a file cannot be decoded; it is not skipped, because it may name
  // a device in use.
  static base::StatusOr<std::unique_ptr<Records>> Open(const std::string& folder);

  std::optional<Record> Get(const std::string& volume) const;
  std::vector<Record> ListRecords() const;
  // The volume that has `mount_dir` as a pod's folder; empty: none.
  std::string FindVolumeAt(std::string_view mount_dir) const;
  // Another volume on record whose image is that of `record`; empty: none.
  std::string FindOtherVolume(const Record& record) const;

  base::Status Put(const Record& record);
  base::Status Remove(const std::string& volume);

 private:
  explicit Records(std::unique_ptr<platform::RecordFolder> folder) : folder_(std::move(folder)) {}

  const std::unique_ptr<platform::RecordFolder> folder_;
  mutable base::Mutex mutex_;
  std::map<std::string, Record> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::blockagent
