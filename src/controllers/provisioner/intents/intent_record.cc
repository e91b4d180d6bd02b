#include "controllers/provisioner/intents/intent_record.h"

#include "api/kind_info.h"
#include "base/base64.h"
#include "base/fault.h"
#include "base/log.h"
#include "http/gzip.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

const api::KindInfo& kLease = api::kinds::kLease;
// {"writer": ID, "lineage": ID, "intents": {UID: intent}}, or that text packed.
constexpr std::string_view kIntents = "storage.berth.dev/intents";
// A longer record is packed: compressed by gzip, then base64. The server copies the annotation for
// each write and each watch of the Lease, so a long text costs it more than the rest of the object.
constexpr size_t kMostPlainBytes = 4096;

std::string Pack(std::string text) {
  return text.size() <= kMostPlainBytes ? std::move(text) : base::EncodeBase64(http::Gzip(text));
}

// The text that was packed; "" if `annotation` is neither JSON nor packed text.
std::string Unpack(const std::string& annotation) {
  if (annotation.starts_with('{')) return annotation;
  const auto packed = base::DecodeBase64(annotation);
  if (!packed.has_value()) return "";
  // The record may be of another version, with a larger limit.
  return http::Gunzip(*packed, 4 * IntentRecord::kMostBytes).value_or("");
}

// The record in the annotation; an empty object if there is none or it is malformed.
Json RecordOf(const Json& lease) {
  const std::string annotation = base::json::String(lease, {"metadata", "annotations", kIntents});
  if (annotation.empty()) return Json::object();
  StatusOr<Json> record = base::json::Parse(Unpack(annotation));
  if (record.ok() && record->is_object()) return *std::move(record);
  LOG_ERROR("the intents in lease {} are malformed and are lost",
            base::Quote(base::json::String(lease, {"metadata", "name"})));
  return Json::object();
}

}  // namespace

bool IntentRecord::loaded() const {
  MutexLock lock(mutex_);
  return loaded_;
}

void IntentRecord::GiveUp(const std::string& why) {
  LOG_WARNING(
      "what CreateVolume is called for is not recorded: {}. If this process is killed during a "
      "call, a volume may stay in the driver that no object names",
      why);
  loaded_ = true;
  off_ = true;
}

StatusOr<IntentRecord::Left> IntentRecord::Load(const std::string& lease) {
  MutexLock write_lock(write_mutex_);
  lease_name_ = lease;
  if (options_.ns.empty()) {
    MutexLock lock(mutex_);
    GiveUp("no namespace is known for its lease");
    return Left{};
  }
  StatusOr<Json> read = client_.Get(kLease, options_.ns, lease_name_);
  if (read.status().code() == StatusCode::kPermissionDenied) {
    MutexLock lock(mutex_);
    GiveUp(std::string(base::Message(read.status())));
    return Left{};
  }
  if (!read.ok() && read.status().code() != StatusCode::kNotFound) return read.status();
  lease_ = read.ok() ? *std::move(read) : Json();
  const Json record = RecordOf(lease_);

  Left left;
  left.disputed =
      options_.lineage.empty() || base::json::String(record, {"lineage"}) != options_.lineage;
  MutexLock lock(mutex_);
  loaded_ = true;
  for (const auto& [uid, recorded] : base::json::Map(record, {"intents"}).items()) {
    if (texts_.contains(uid)) continue;
    StatusOr<Intent> intent = DecodeIntent(recorded);
    if (!intent.ok()) {
      LOG_ERROR("what was recorded for the claim with uid {} is lost: {}", base::Quote(uid),
                base::ToString(intent.status()));
      continue;
    }
    const std::string& text = texts_.emplace(uid, recorded.dump()).first->second;
    bytes_ += text.size();
    left.intents.push_back(*std::move(intent));
  }
  // The next write says that the intents are of this process and its lineage now.
  if (!record.empty()) ++changes_;
  return left;
}

Status IntentRecord::HoldIntent(const std::string& uid, const Intent& intent) {
  std::string text = EncodeIntent(intent).dump();
  std::string before;
  int64_t change = 0;
  {
    MutexLock lock(mutex_);
    if (off_) return base::OkStatus();
    if (!loaded_) {
      return Error(StatusCode::kAborted, "another process has written the intents meanwhile");
    }
    const auto found = texts_.find(uid);
    if (found != texts_.end()) before = found->second;
    if (before != text) {
      if (bytes_ - before.size() + text.size() > kMostBytes) {
        return Error(StatusCode::kResourceExhausted,
                     "the outcome of {} calls is not known, and the record takes no more",
                     texts_.size());
      }
      bytes_ += text.size() - before.size();
      texts_[uid] = std::move(text);
      ++changes_;
    }
    change = changes_;
  }
  const Status written = WriteUpTo(change);
  if (written.ok()) return written;
  MutexLock lock(mutex_);
  if (off_) return base::OkStatus();
  // The Lease may have the new text, or will get the old one with the next write.
  const auto now = texts_.find(uid);
  if (now != texts_.end()) {
    bytes_ += before.size() - now->second.size();
    if (before.empty()) {
      texts_.erase(now);
    } else {
      now->second = std::move(before);
    }
    ++changes_;
  }
  return written;
}

bool IntentRecord::Release(const std::string& uid) {
  MutexLock lock(mutex_);
  const auto found = texts_.find(uid);
  if (found == texts_.end()) return false;
  bytes_ -= found->second.size();
  texts_.erase(found);
  ++changes_;
  return true;
}

Status IntentRecord::Flush() {
  int64_t change = 0;
  {
    MutexLock lock(mutex_);
    if (!loaded_ || off_) return base::OkStatus();
    change = changes_;
  }
  return WriteUpTo(change);
}

Status IntentRecord::WriteUpTo(int64_t change) {
  MutexLock write_lock(write_mutex_);
  std::string text;
  int64_t changes = 0;
  {
    MutexLock lock(mutex_);
    if (written_ >= change) return base::OkStatus();
    if (failed_ >= change) return failure_;
    text = MakeText();
    changes = changes_;
  }
  const Status written = WriteLease(text);
  MutexLock lock(mutex_);
  if (written.ok()) {
    written_ = changes;
  } else if (written.code() == StatusCode::kPermissionDenied) {
    GiveUp(std::string(base::Message(written)));
  } else {
    // Those who wait for the same write need not try it again, one after the other.
    failed_ = changes;
    failure_ = written;
    if (written.code() == StatusCode::kAborted) loaded_ = false;
  }
  return written;
}

Status IntentRecord::WriteLease(const std::string& text) {
  RETURN_IF_ERROR(base::FaultPoint<"provisioner.intents.before">());
  RETURN_IF_ERROR(WriteText(text));
  return base::FaultPoint<"provisioner.intents.after">();
}

Status IntentRecord::WriteText(const std::string& text) {
  if (lease_.is_null()) {
    const Status created = CreateLease(text);
    if (created.code() != StatusCode::kAlreadyExists) return created;
    RETURN_IF_ERROR(ReadAgain());
  }
  // A second try follows a conflict with somebody who changed something else of the Lease, or with
  // a write of this process whose answer was lost.
  for (const bool last : {false, true}) {
    base::json::Set(lease_, {"metadata", "annotations", kIntents}, text);
    StatusOr<Json> updated = client_.Update(kLease, lease_, "");
    if (updated.ok()) {
      lease_ = *std::move(updated);
      return base::OkStatus();
    }
    if (updated.status().code() == StatusCode::kNotFound) return CreateLease(text);
    if (updated.status().code() != StatusCode::kAborted || last) return updated.status();
    RETURN_IF_ERROR(ReadAgain());
    if (lease_.is_null()) return CreateLease(text);
  }
  return base::OkStatus();
}

Status IntentRecord::CreateLease(const std::string& text) {
  Json lease = {{"apiVersion", kLease.api_version()},
                {"kind", kLease.kind},
                {"metadata", {{"name", lease_name_}, {"namespace", options_.ns}}},
                {"spec", Json::object()}};
  base::json::Set(lease, {"metadata", "annotations", kIntents}, text);
  ASSIGN_OR_RETURN(lease_, client_.Create(kLease, options_.ns, lease));
  return base::OkStatus();
}

Status IntentRecord::ReadAgain() {
  StatusOr<Json> read = client_.Get(kLease, options_.ns, lease_name_);
  if (read.status().code() == StatusCode::kNotFound) {
    lease_ = nullptr;
    return base::OkStatus();
  }
  RETURN_IF_ERROR(read);
  const std::string writer = base::json::String(RecordOf(*read), {"writer"});
  if (!writer.empty() && writer != writer_) {
    return Error(StatusCode::kAborted, "another process has written the intents in lease '{}/{}'",
                 options_.ns, lease_name_);
  }
  lease_ = *std::move(read);
  return base::OkStatus();
}

std::string IntentRecord::MakeText() const {
  std::string text = fmt::format(R"({{"writer":{},"lineage":{},"intents":{{)", Json(writer_).dump(),
                                 Json(options_.lineage).dump());
  const char* separator = "";
  for (const auto& [uid, intent] : texts_) {
    text += fmt::format("{}{}:{}", separator, Json(uid).dump(), intent);
    separator = ",";
  }
  return Pack(text + "}}");
}

}  // namespace berth::controllers::provisioner
