// Stored objects as text, and how the revision is inserted without parsing them.
//
// The stored text is compact JSON that opens {"apiVersion":...,"kind":...,"metadata":{ and has no
// resourceVersion. Readers get the text with the resourceVersion inserted after that brace.
#pragma once

#include <string>
#include <string_view>

#include "api/kind_info.h"
#include "base/json.h"
#include "store/store.h"

namespace berth::apiserver {

// The text to store. `object` has apiVersion, kind and a metadata object; its resourceVersion is
// left out.
std::string EncodeObject(const base::Json& object);

// Appends the stored `text` with `revision` as its resourceVersion. If `revision` is 0 (a dry run,
// which stores nothing), the text is appended unchanged.
void AppendWithRevision(std::string& out, std::string_view text, store::Revision revision);

// The metadata object within a stored text, unparsed; "{}" if the text is damaged.
std::string_view StoredMetadata(std::string_view text);

// Parses a stored text into its object, without resourceVersion. DATA_LOSS: the text is damaged.
base::StatusOr<base::Json> DecodeStored(std::string_view text);
// Parses a record into its object, with the record's revision as resourceVersion. DATA_LOSS: as
// above.
base::StatusOr<base::Json> DecodeRecord(const store::Record& record);

// The prefix of the store keys of a kind: "/pods/", or "/pods/default/" in one namespace. A kind
// outside the core group has its group in the key: "/storageclasses.storage.k8s.io/". A kind with
// KindInfo::stored_as has the keys of that kind.
std::string KeyPrefix(const api::KindInfo& kind, std::string_view ns);
// The store key of one object: "/pods/default/web", "/storageclasses.storage.k8s.io/fast".
std::string ObjectStoreKey(const api::KindInfo& kind, std::string_view ns, std::string_view name);

}  // namespace berth::apiserver
