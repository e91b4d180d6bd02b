// How nodes find out whether they see each other's locks on a folder of images.
//
// The absence of a lock proves that a node does not write only if its lock would be seen. So each
// agent holds a lock of a file of its own, and notes the nodes whose locks it sees:
//
//   FOLDER/.berth/nodes/LIFE/NODE.node   the name and the session of a node, locked by its agent
//   FOLDER/.berth/nodes/LIFE/A.B.seen    session B saw the lock of session A
//
// LIFE is the uid of the StorageCluster, because a cluster of that name that is made later has
// other nodes and mounts. A session is a node's mount of the folder since the node's boot, with the
// mount's options: after a reboot or a mount with other options a node has to be seen again.
// Several processes of a machine with the same mount have the same session. NODE is a digest of the
// name, because names come from API objects.
//
// A note that is lost in a crash is written again, so notes are no durable records.
//
// Thread-safe. Whatever may hang runs in a child process with a deadline; DEADLINE_EXCEEDED: the
// folder does not answer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::block {

// A session is this many hexadecimal digits.
inline constexpr size_t kSessionLength = 32;

class LockHandshake {
 public:
  struct Own {
    std::string node;
    std::string session;
    // Why the file system does not stop this node's writes if the node loses its locks; empty: it
    // does.
    std::string weakness;
  };

  // `folder` is FOLDER/.berth/nodes/LIFE; it is made when it is needed.
  explicit LockHandshake(std::string folder) : folder_(std::move(folder)) {}

  // Holds this node's lock, until HideLock or the end of this object. Idempotent; a changed session
  // is written. FAILED_PRECONDITION: another agent holds the lock of this node.
  base::Status ShowLock(const Own& own);
  // Releases the lock, and removes this node's file and the notes of its session.
  void HideLock();

  // Notes the sessions whose locks can be seen from `session`. Cheap for those that are noted.
  base::Status NoteLocks(const std::string& session);

  // OK: a lock that `node` holds would be seen from `session`, because this session or one that it
  // saw has seen a lock of the node's present session. FAILED_PRECONDITION says what is missing.
  base::Status ProveSeen(const std::string& session, const std::string& node) const;

 private:
  struct Shown {
    std::string session;
    std::string weakness;
  };
  struct Noted {
    std::string session;  // that saw it
    int64_t changed_ns = 0;
    uint64_t inode = 0;
    bool operator==(const Noted&) const = default;
  };

  std::string PathOf(const std::string& node) const;
  // Reads which session the file at `path` names. NOT_FOUND; DATA_LOSS: it cannot be read as such a
  // file.
  base::StatusOr<Shown> ReadShown(const std::string& path) const;
  bool IsStillShown(const Own& own) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status NoteLock(const std::string& name, const std::string& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveNotes(const std::string& session) const;

  const std::string folder_;
  base::Mutex mutex_;
  base::UniqueFd lock_ ABSL_GUARDED_BY(mutex_);
  Own own_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Noted> noted_ ABSL_GUARDED_BY(mutex_);  // by file name
};

}  // namespace berth::block
