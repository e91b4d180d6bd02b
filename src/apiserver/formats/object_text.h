// Stored objects as text, and how the revision is inserted without parsing them.
//
// The stored text is compact JSON that opens {"apiVersion":...,"kind":...,"metadata":{ and has no
// resourceVersion; a reader is given the text with the revision spliced in behind that brace.
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

// Appends the stored `text` as it reads at `revision`; 0: it is not stored, a dry run.
void AppendWithRevision(std::string& out, std::string_view text, store::Revision revision);

// The metadata object within a stored text, unparsed; "{}" if the text is damaged.
std::string_view StoredMetadata(std::string_view text);

// The object of a stored text; DATA_LOSS if it is damaged. Without resourceVersion.
base::StatusOr<base::Json> DecodeStored(std::string_view text);
// With resourceVersion.
base::StatusOr<base::Json> DecodeRecord(const store::Record& record);

// "/pods/", "/pods/default/" or, with a name, the object's own key.
std::string KeyPrefix(const api::KindInfo& kind, std::string_view ns);
std::string ObjectStoreKey(const api::KindInfo& kind, std::string_view ns, std::string_view name);

}  // namespace berth::apiserver
