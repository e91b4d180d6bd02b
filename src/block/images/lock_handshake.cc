#include "block/images/lock_handshake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::chrono::seconds kHandshakeTime{10};  // of the folder's file system
constexpr std::string_view kNodeSuffix = ".node";
constexpr std::string_view kSeenSuffix = ".seen";
constexpr size_t kLargestFile = 4096;
// Locked by the agent of the node whatever its session is, so that there is one such agent.
constexpr off_t kAgentByte = 0;

struct flock LockAt(off_t byte) {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return range;
}

// Each session has a byte of its own, so that a lock is never taken for that of another session.
off_t ByteOf(const std::string& session) {
  return static_cast<off_t>(1 + (base::Fnv1a64(session) >> 3));
}

std::string NoteOf(const std::string& seen, const std::string& seer) {
  return fmt::format("{}.{}{}", seen, seer, kSeenSuffix);
}

struct FileText {
  std::array<char, kLargestFile> bytes;
  size_t size;
};

StatusOr<std::string> ReadInChild(const std::string& path) {
  const std::string context = fmt::format("read {}", Quote(path));
  ASSIGN_OR_RETURN(const FileText text,
                   platform::AskChild<FileText>(context, kHandshakeTime, [path](FileText& text) {
                     const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
                     if (fd < 0) return errno;
                     const ssize_t size = read(fd, text.bytes.data(), text.bytes.size());
                     if (size < 0) return errno;
                     text.size = static_cast<size_t>(size);
                     return 0;
                   }));
  return std::string(text.bytes.data(), text.size);
}

StatusOr<bool> IsLockedAt(const std::string& path, off_t byte) {
  return platform::AskChild<bool>(
      fmt::format("read the locks of {}", Quote(path)), kHandshakeTime, [path, byte](bool& locked) {
        const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) return errno;
        struct flock range = LockAt(byte);
        if (fcntl(fd, F_OFD_GETLK, &range) != 0) return errno;
        locked = range.l_type != F_UNLCK;
        return 0;
      });
}

StatusOr<struct stat> StatInChild(const std::string& path) {
  return platform::AskChild<struct stat>(
      fmt::format("look at {}", Quote(path)), kHandshakeTime,
      [path](struct stat& st) { return lstat(path.c_str(), &st) == 0 ? 0 : errno; });
}

Status WriteNote(const std::string& path) {
  return platform::RunInChild(fmt::format("write {}", Quote(path)), kHandshakeTime, [path] {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? errno : 0;
  });
}

}  // namespace

std::string LockHandshake::PathOf(const std::string& node) const {
  return fmt::format("{}/{}{}", folder_, base::Sha256Hex(node).substr(0, 32), kNodeSuffix);
}

StatusOr<LockHandshake::Shown> LockHandshake::ReadShown(const std::string& path) const {
  ASSIGN_OR_RETURN(const std::string text, ReadInChild(path));
  const auto json = base::json::Parse(text);
  Shown shown;
  if (json.ok()) {
    shown = {.session = base::json::String(*json, {"session"}),
             .weakness = base::json::String(*json, {"weakness"})};
  }
  // The session becomes part of file names, and another node wrote it.
  const bool valid = shown.session.size() == kSessionLength &&
                     shown.session.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!valid) return Error(StatusCode::kDataLoss, "{} names no session", Quote(path));
  return shown;
}

// Looks at the file, because another process may have removed the folder meanwhile.
bool LockHandshake::IsStillShown(const Own& own) {
  if (!lock_.valid() || own_.node != own.node || own_.session != own.session ||
      own_.weakness != own.weakness) {
    return false;
  }
  const auto named = StatInChild(PathOf(own.node));
  struct stat held;
  return named.ok() && fstat(lock_.get(), &held) == 0 && named->st_ino == held.st_ino;
}

Status LockHandshake::ShowLock(const Own& own) {
  const base::MutexLock lock(mutex_);
  if (IsStillShown(own)) return base::OkStatus();
  const std::string path = PathOf(own.node);
  const std::string context = fmt::format("lock {}", Quote(path));
  RETURN_IF_ERROR(platform::MakeFolders(folder_, 0700));
  lock_.Reset();
  // The lock belongs to the open file, so a child process can take it for this process.
  ASSIGN_OR_RETURN(
      platform::OpenedInChild opened,
      platform::OpenInChild(context, kHandshakeTime, [path, byte = ByteOf(own.session)] {
        const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) return -errno;
        for (const off_t one : {kAgentByte, byte}) {
          struct flock range = LockAt(one);
          if (fcntl(fd, F_OFD_SETLK, &range) != 0) {
            return errno == EACCES ? -EAGAIN : -errno;
          }
        }
        return fd;
      }));
  if (opened.error == EAGAIN) {
    return Error(
        StatusCode::kFailedPrecondition,
        "another block agent that calls itself node {} uses the folder: give each node its "
        "own name",
        Quote(own.node));
  }
  if (opened.error != 0) return platform::ErrnoError(opened.error, context);
  const auto before = ReadShown(path);
  // An unchanged file is not written again, because the share may be full.
  if (!before.ok() || before->session != own.session || before->weakness != own.weakness) {
    const std::string text = base::json::Dump(
        {{"node", own.node}, {"session", own.session}, {"weakness", own.weakness}});
    if (ftruncate(opened.fd.get(), 0) != 0) return platform::ErrnoError(errno, context);
    RETURN_IF_ERROR(platform::WriteAll(opened.fd.get(), text));
    if (fsync(opened.fd.get()) != 0) return platform::ErrnoError(errno, context);
  }
  if (before.ok() && before->session != own.session) RemoveNotes(before->session);
  lock_ = std::move(opened.fd);
  own_ = own;
  return base::OkStatus();
}

// The folder may go on being used by others, so an error only leaves files behind.
void LockHandshake::RemoveNotes(const std::string& session) const {
  const auto names = platform::ListFolder(folder_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!name.ends_with(kSeenSuffix)) continue;
    if (name.starts_with(session + ".") || name.ends_with(NoteOf("", session))) {
      unlink((folder_ + "/" + name).c_str());
    }
  }
}

void LockHandshake::HideLock() {
  const base::MutexLock lock(mutex_);
  noted_.clear();
  if (!lock_.valid()) return;
  RemoveNotes(own_.session);
  unlink(PathOf(own_.node).c_str());
  lock_.Reset();
  // They stay while files of other nodes are in them.
  rmdir(folder_.c_str());
  rmdir(folder_.substr(0, folder_.rfind('/')).c_str());
}

Status LockHandshake::NoteLocks(const std::string& session) {
  const base::MutexLock lock(mutex_);
  const auto names = platform::ListFolder(folder_);
  if (names.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(names);
  Status first = base::OkStatus();
  for (const std::string& name : *names) {
    if (!name.ends_with(kNodeSuffix)) continue;
    const Status noted = NoteLock(name, session);
    // A file that its node removed or has not finished is read the next time.
    if (noted.code() == StatusCode::kNotFound || noted.code() == StatusCode::kDataLoss) continue;
    if (first.ok()) first = noted;
  }
  return first;
}

Status LockHandshake::NoteLock(const std::string& name, const std::string& session) {
  const std::string path = folder_ + "/" + name;
  ASSIGN_OR_RETURN(const struct stat st, StatInChild(path));
  const Noted known{.session = session,
                    .changed_ns = st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec,
                    .inode = st.st_ino};
  if (const auto it = noted_.find(name); it != noted_.end() && it->second == known) {
    return base::OkStatus();
  }
  ASSIGN_OR_RETURN(const Shown shown, ReadShown(path));
  // All locks of one session are in this kernel, so they prove nothing about others.
  if (shown.session == session) return base::OkStatus();
  ASSIGN_OR_RETURN(const bool locked, IsLockedAt(path, ByteOf(shown.session)));
  if (!locked) return base::OkStatus();
  RETURN_IF_ERROR(WriteNote(folder_ + "/" + NoteOf(shown.session, session)));
  noted_[name] = known;
  LOG_INFO("{}: the lock of another node is seen", Quote(path));
  return base::OkStatus();
}

Status LockHandshake::ProveSeen(const std::string& session, const std::string& node) const {
  const auto shown = ReadShown(PathOf(node));
  if (shown.status().code() == StatusCode::kNotFound ||
      shown.status().code() == StatusCode::kDataLoss) {
    return Error(StatusCode::kFailedPrecondition,
                 "the agent of node {} has shown no lock in the folder of images", Quote(node));
  }
  RETURN_IF_ERROR(shown);
  if (!shown->weakness.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "node {} may write although it has no lock, because {}", Quote(node),
                 shown->weakness);
  }
  if (shown->session == session) return base::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder(folder_));
  const std::set<std::string> notes(names.begin(), names.end());
  if (notes.contains(NoteOf(shown->session, session))) return base::OkStatus();
  const std::string prefix = shown->session + ".";
  for (const std::string& note : notes) {
    if (!note.starts_with(prefix) || !note.ends_with(kSeenSuffix)) continue;
    const std::string seer =
        note.substr(prefix.size(), note.size() - prefix.size() - kSeenSuffix.size());
    if (notes.contains(NoteOf(seer, session))) return base::OkStatus();
  }
  return Error(StatusCode::kFailedPrecondition,
               "no node has seen a lock of node {} in the folder of images since that node mounted "
               "it, so the node's locks may not reach other nodes",
               Quote(node));
}

}  // namespace berth::block
