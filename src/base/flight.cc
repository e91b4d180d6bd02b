#include "base/flight.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/files/process_stat.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/utf8.h"

namespace berth::base {
namespace {

constexpr size_t kSlotSize = 1024;
constexpr size_t kSlots = 16;  // of a ring; the first holds the key
constexpr size_t kRingSize = kSlotSize * kSlots;
constexpr size_t kHeaderSize = 4096;
constexpr std::array<char, 8> kMagic = {'b', 'e', 'r', 't', 'h', 'f', 'l', '2'};
constexpr size_t kMaxRings = 1 << 16;

enum State : uint16_t { kFree = 0, kRunning = 1, kDone = 2 };

// The layout on disk. Every text ends with a zero byte; `sum` covers all bytes after it.
struct Slot {
  uint32_t sum = 0;
  uint16_t state = kFree;
  uint16_t kind = 0;
  uint64_t sequence = 0;
  uint64_t epoch = 0;
  int64_t first_ns = 0, start_ns = 0, end_ns = 0;
  uint32_t count = 1;
  int32_t pid = 0;
  int32_t code = 0;
  char what[44] = {};
  char target[136] = {};
  char message[784] = {};
};
static_assert(sizeof(Slot) == kSlotSize);

struct KeySlot {
  uint32_t sum = 0;
  char key[kSlotSize - 4] = {};
};
static_assert(sizeof(KeySlot) == kSlotSize);

struct Header {
  uint32_t sum = 0;
  int32_t pid = 0;
  char magic[8] = {};
  uint64_t epoch = 0;
  uint64_t process_start = 0;  // in clock ticks since the boot, as /proc/PID/stat has it
  char boot_id[40] = {};
  char role[40] = {};
};

template <typename T>
uint32_t SumOf(const T& record) {
  const auto* at = reinterpret_cast<const char*>(&record) + sizeof(record.sum);
  const uint32_t sum = Fnv1a32({at, sizeof(T) - sizeof(record.sum)});
  return sum == 0 ? 1 : sum;  // because a place of zeros is not a record
}

template <size_t N>
void PutText(char (&field)[N], std::string_view text) {
  const size_t size = CharacterEnd(text, N - 1);
  std::memset(field, 0, N);
  std::memcpy(field, text.data(), size);
}

// Writes a text of the form "context: context: reason". Of one that is too long, the middle is left
// out, because its beginning says what was done and its end says why that failed.
template <size_t N>
void PutReason(char (&field)[N], std::string_view text) {
  constexpr std::string_view kGap = " ... ";
  constexpr size_t kHead = N / 2;
  if (text.size() < N) return PutText(field, text);
  std::string whole(text.substr(0, CharacterEnd(text, kHead)));
  whole += kGap;
  size_t tail = text.size() - (N - 1 - whole.size());
  while (tail < text.size() && ContinuesCharacter(text[tail])) ++tail;
  whole += text.substr(tail);
  PutText(field, whole);
}

template <size_t N>
std::string FieldText(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

int64_t Nanoseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
WallTime ToTime(int64_t ns) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(ns)));
}

// Shortens a key that is too long for its slot to its beginning and a hash of the whole key.
std::string ShortenKey(std::string_view key) {
  constexpr size_t kMaxKey = sizeof(KeySlot::key) - 1;
  if (key.size() <= kMaxKey) return std::string(key);
  return fmt::format("{}#{:016x}", key.substr(0, kMaxKey - 17), Fnv1a64(key));
}

template <typename T>
bool ReadAt(int fd, uint64_t offset, T& record) {
  return pread(fd, &record, sizeof(T), static_cast<off_t>(offset)) ==
             static_cast<ssize_t>(sizeof(T)) &&
         record.sum == SumOf(record);
}

bool ReadHeader(int fd, Header& header) {
  return ReadAt(fd, 0, header) && std::memcmp(header.magic, kMagic.data(), kMagic.size()) == 0;
}

uint64_t RingOffset(size_t ring) { return kHeaderSize + ring * kRingSize; }
uint64_t SlotOffset(size_t ring, size_t slot) { return RingOffset(ring) + slot * kSlotSize; }

size_t CountRings(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size <= static_cast<off_t>(kHeaderSize)) return 0;
  return std::min((static_cast<size_t>(st.st_size) - kHeaderSize + kRingSize - 1) / kRingSize,
                  kMaxRings);
}

thread_local FlightScope* current_scope = nullptr;

}  // namespace

class FlightRing {
 public:
  FlightRing(FlightRecorder& recorder, size_t index, std::string key)
      : recorder_(recorder), index_(index), key_(std::move(key)) {}

  size_t index() const { return index_; }
  uint64_t last_used() const { return last_used_; }

  // Reads the ring's records from the file.
  void LoadSlots(int fd) {
    MutexLock lock(mutex_);
    written_ = true;
    for (size_t i = 1; i < kSlots; ++i) {
      Slot slot;
      if (!ReadAt(fd, SlotOffset(index_, i), slot)) continue;
      last_used_ = std::max(last_used_.load(), slot.sequence);
      // An act that was running when the role died stays in the file, but its place may be reused.
      RememberSlot(i, slot);
      if (slot.state == kRunning) remembered_[i].state = kDone;
    }
  }

  // Records an act that begins, and returns its place; 0: there is no free place.
  size_t StartRecord(FlightKind kind, std::string_view what, std::string_view target) {
    MutexLock lock(mutex_);
    PrepareRing();
    const size_t place = FindPlace();
    if (place == 0) return 0;
    Slot slot;
    slot.state = kRunning;
    slot.kind = static_cast<uint16_t>(kind);
    slot.start_ns = slot.first_ns = Nanoseconds(std::chrono::system_clock::now());
    slot.pid = gettid();  // of the thread that acts, until SetPid
    PutText(slot.what, what);
    PutText(slot.target, target);
    running_[place] = slot;
    WriteSlot(place, slot);
    return place;
  }

  void SetPid(size_t place, pid_t pid) {
    MutexLock lock(mutex_);
    Slot& slot = running_[place];
    slot.pid = pid;
    WriteSlot(place, slot);
  }

  void EndRecord(size_t place, const Status& status) {
    MutexLock lock(mutex_);
    Slot slot = running_[place];
    running_.erase(place);
    slot.state = kDone;
    slot.end_ns = Nanoseconds(std::chrono::system_clock::now());
    slot.code = static_cast<int32_t>(status.code());
    PutReason(slot.message, Message(status));
    JoinEqualRecords(place, slot);
    WriteSlot(place, slot);
  }

  void RecordRetry(const Status& why, std::chrono::milliseconds delay) {
    MutexLock lock(mutex_);
    PrepareRing();
    const size_t place = FindPlace();
    if (place == 0) return;
    Slot slot;
    slot.state = kDone;
    slot.kind = static_cast<uint16_t>(FlightKind::kRetry);
    const auto now = std::chrono::system_clock::now();
    slot.start_ns = slot.first_ns = Nanoseconds(now);
    slot.end_ns = Nanoseconds(now + delay);
    slot.code = static_cast<int32_t>(why.code());
    slot.pid = getpid();
    PutText(slot.what, "retry");
    PutReason(slot.message, Message(why));
    JoinEqualRecords(place, slot);
    WriteSlot(place, slot);
  }

  void RemoveRetries() {
    MutexLock lock(mutex_);
    for (size_t i = 1; i < kSlots; ++i) {
      const Remembered& slot = remembered_[i];
      if (slot.state == kDone && slot.kind == FlightKind::kRetry) DropSlot(i);
    }
  }

 private:
  // Before the first record: empties the ring's place in the file, and writes its key there.
  void PrepareRing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(written_, true)) return;
    std::vector<char> empty(kRingSize);
    KeySlot name;
    PutText(name.key, key_);
    name.sum = SumOf(name);
    std::memcpy(empty.data(), &name, sizeof(name));
    recorder_.WriteAt(RingOffset(index_), empty.data(), empty.size());
  }

  // The part of a slot that is kept in memory.
  struct Remembered {
    State state = kFree;
    FlightKind kind = FlightKind::kCall;
    uint32_t outcome = 0;  // OutcomeOf the slot
    uint32_t count = 1;
    int64_t first_ns = 0;
    uint64_t sequence = 0;
  };

  // A hash of a slot's kind, texts and code. Slots with equal outcomes have equal hashes.
  static uint32_t OutcomeOf(const Slot& slot) {
    Slot same;
    same.kind = slot.kind;
    same.code = slot.code;
    PutText(same.what, FieldText(slot.what));
    PutText(same.target, FieldText(slot.target));
    PutText(same.message, FieldText(slot.message));
    return SumOf(same);
  }

  void RememberSlot(size_t place, const Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    remembered_[place] = {.state = static_cast<State>(slot.state),
                          .kind = static_cast<FlightKind>(slot.kind),
                          .outcome = OutcomeOf(slot),
                          .count = slot.count,
                          .first_ns = slot.first_ns,
                          .sequence = slot.sequence};
  }

  // Returns a free place, or else the place of the oldest act that has ended. 0: all acts are
  // running.
  size_t FindPlace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t best = 0;
    for (size_t i = 1; i < kSlots; ++i) {
      if (remembered_[i].state == kFree) return i;
      if (remembered_[i].state != kDone) continue;
      if (best == 0 || remembered_[i].sequence < remembered_[best].sequence) best = i;
    }
    return best;
  }

  // Joins earlier records with the same outcome into `slot`, which counts them. So retries do not
  // push all other records out of the ring.
  void JoinEqualRecords(size_t place, Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint32_t outcome = OutcomeOf(slot);
    for (size_t i = 1; i < kSlots; ++i) {
      if (i == place || remembered_[i].state != kDone || remembered_[i].outcome != outcome)
        continue;
      slot.count += remembered_[i].count;
      slot.first_ns = remembered_[i].first_ns;
      DropSlot(i);
    }
  }

  void DropSlot(size_t place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    remembered_[place] = {};
    const std::array<char, kSlotSize> empty = {};
    recorder_.WriteAt(SlotOffset(index_, place), empty.data(), empty.size());
  }

  void WriteSlot(size_t place, Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    slot.sequence = recorder_.sequence_.fetch_add(1, std::memory_order_relaxed);
    slot.epoch = recorder_.epoch_;
    slot.sum = SumOf(slot);
    RememberSlot(place, slot);
    last_used_ = slot.sequence;
    recorder_.WriteAt(SlotOffset(index_, place), &slot, sizeof(slot));
  }

  FlightRecorder& recorder_;
  const size_t index_;
  const std::string key_;
  std::atomic<uint64_t> last_used_{0};
  Mutex mutex_;
  bool written_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<Remembered, kSlots> remembered_ ABSL_GUARDED_BY(mutex_);
  std::map<size_t, Slot> running_ ABSL_GUARDED_BY(mutex_);
};

FlightRecorder::FlightRecorder(UniqueFd fd, const Options& options)
    : fd_(std::move(fd)), options_(options) {}

FlightRecorder::~FlightRecorder() = default;

StatusOr<std::unique_ptr<FlightRecorder>> FlightRecorder::Open(const std::string& path,
                                                               std::string_view role,
                                                               const Options& options) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return Error(StatusCode::kInternal, "open the flight record '{}': {}", path,
                 std::strerror(errno));
  }
  auto recorder = std::unique_ptr<FlightRecorder>(new FlightRecorder(std::move(fd), options));
  recorder->LoadRings();
  RETURN_IF_ERROR_WITH(recorder->WriteHeader(role), fmt::format("flight record '{}'", path));
  return recorder;
}

void FlightRecorder::LoadRings() {
  Header header;
  if (!ReadHeader(fd_.get(), header)) {
    if (ftruncate(fd_.get(), 0) != 0) LOG_WARNING("cannot empty the flight record");
    return;
  }
  epoch_ = header.epoch + 1;
  MutexLock lock(mutex_);
  const size_t rings = std::min(CountRings(fd_.get()), options_.rings);
  for (size_t i = 0; i < rings; ++i) {
    KeySlot name;
    if (!ReadAt(fd_.get(), RingOffset(i), name)) continue;
    auto ring = std::make_shared<FlightRing>(*this, i, FieldText(name.key));
    ring->LoadSlots(fd_.get());
    sequence_ = std::max(sequence_.load(), ring->last_used() + 1);
    rings_.emplace(FieldText(name.key), std::move(ring));
  }
}

Status FlightRecorder::WriteHeader(std::string_view role) {
  Header header;
  header.pid = getpid();
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.epoch = epoch_;
  header.process_start = ReadStartTicks(getpid());
  PutText(header.boot_id, ReadBootId());
  PutText(header.role, role);
  header.sum = SumOf(header);
  if (pwrite(fd_.get(), &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header))) {
    return Error(StatusCode::kResourceExhausted, "write: {}", std::strerror(errno));
  }
  return OkStatus();
}

// Failures are only logged, and only the first one: on a full disk records are lost, but the work
// goes on.
void FlightRecorder::WriteAt(uint64_t offset, const void* data, size_t size) {
  const ssize_t written = pwrite(fd_.get(), data, size, static_cast<off_t>(offset));
  if (written == static_cast<ssize_t>(size)) return;
  if (!write_failed_.exchange(true)) {
    LOG_WARNING("the flight record is incomplete from here on: {}", std::strerror(errno));
  }
}

std::shared_ptr<FlightRing> FlightRecorder::FindRing(std::string_view key, bool make) {
  const std::string short_key = ShortenKey(key);
  MutexLock lock(mutex_);
  if (const auto found = rings_.find(short_key); found != rings_.end()) return found->second;
  if (!make) return nullptr;
  std::vector<bool> taken(options_.rings);
  auto oldest = rings_.end();
  for (auto it = rings_.begin(); it != rings_.end(); ++it) {
    taken[it->second->index()] = true;
    // A ring that a span uses now is not given to another key.
    if (it->second.use_count() > 1) continue;
    if (oldest == rings_.end() || it->second->last_used() < oldest->second->last_used()) {
      oldest = it;
    }
  }
  auto place = static_cast<size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
  if (place == options_.rings) {
    if (oldest == rings_.end()) return nullptr;
    place = oldest->second->index();
    rings_.erase(oldest);
  }
  auto ring = std::make_shared<FlightRing>(*this, place, short_key);
  rings_.emplace(short_key, ring);
  return ring;
}

FlightScope::FlightScope(FlightRecorder* recorder, std::string key)
    : recorder_(recorder), key_(std::move(key)), outer_(current_scope) {
  current_scope = this;
}

FlightScope::~FlightScope() { current_scope = outer_; }

void FlightScope::RecordRetry(const Status& why, std::chrono::milliseconds delay) {
  if (current_scope == nullptr || current_scope->recorder_ == nullptr) return;
  if (const auto ring = current_scope->recorder_->FindRing(current_scope->key_, true)) {
    ring->RecordRetry(why, delay);
  }
}

void FlightScope::RemoveRetries() {
  if (current_scope == nullptr || current_scope->recorder_ == nullptr) return;
  if (const auto ring = current_scope->recorder_->FindRing(current_scope->key_, false)) {
    ring->RemoveRetries();
  }
}

FlightSpan::FlightSpan(FlightKind kind, std::string_view what, std::string_view target) {
  if (current_scope == nullptr || current_scope->recorder_ == nullptr) return;
  ring_ = current_scope->recorder_->FindRing(current_scope->key_, true);
  if (ring_ == nullptr) return;
  slot_ = ring_->StartRecord(kind, what, target);
  if (slot_ == 0) ring_.reset();
}

FlightSpan::~FlightSpan() { End(Status(StatusCode::kCancelled, "")); }

void FlightSpan::SetPid(pid_t pid) {
  if (ring_ != nullptr) ring_->SetPid(slot_, pid);
}

void FlightSpan::End(const Status& status) {
  if (ring_ != nullptr) ring_->EndRecord(slot_, status);
  ring_.reset();
}

StatusOr<FlightLog> ReadFlightLog(const std::string& path,
                                  const std::function<uint64_t(pid_t)>& read_start) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return Error(errno == ENOENT ? StatusCode::kNotFound : StatusCode::kPermissionDenied,
                 "read the flight record '{}': {}", path, std::strerror(errno));
  }
  Header header;
  if (!ReadHeader(fd.get(), header)) {
    return Error(StatusCode::kInvalidArgument, "'{}' is not a flight record", path);
  }
  FlightLog log{.role = FieldText(header.role), .pid = header.pid};
  log.alive =
      FieldText(header.boot_id) == ReadBootId() && header.process_start != 0 &&
      (read_start ? read_start(header.pid) : ReadStartTicks(header.pid)) == header.process_start;
  for (size_t ring = 0; ring < CountRings(fd.get()); ++ring) {
    KeySlot name;
    if (!ReadAt(fd.get(), RingOffset(ring), name)) continue;
    for (size_t i = 1; i < kSlots; ++i) {
      Slot slot;
      if (!ReadAt(fd.get(), SlotOffset(ring, i), slot) || slot.state == kFree) continue;
      const bool begun = slot.state == kRunning;
      const bool current = slot.epoch == header.epoch && log.alive;
      log.records.push_back({.key = FieldText(name.key),
                             .kind = static_cast<FlightKind>(slot.kind),
                             .what = FieldText(slot.what),
                             .target = FieldText(slot.target),
                             .first = ToTime(slot.first_ns),
                             .start = ToTime(slot.start_ns),
                             .end = ToTime(slot.end_ns),
                             .count = slot.count,
                             .pid = slot.pid,
                             .running = begun && current,
                             .interrupted = begun && !current,
                             .code = static_cast<StatusCode>(slot.code),
                             .message = FieldText(slot.message),
                             .sequence = slot.sequence});
    }
  }
  std::sort(log.records.begin(), log.records.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return log;
}

}  // namespace berth::base
