// Converts between the form that a kind's clients see and the stored form. They differ only if an
// object has several forms (an Event of core and of events.k8s.io; the versions of a custom
// resource).
//
// The code that handles a request works with the client's form. Field selectors read the stored
// form.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/formats/object_text.h"
#include "apiserver/kinds/kind_rules.h"
#include "base/json.h"
#include "store/store.h"

namespace berth::apiserver {

// Convert from the stored form to that of `kind`, and back. For built-in kinds, members that only
// one form knows are kept.
void ConvertFromStored(const KindRules& kind, base::Json& object);
void ConvertToStored(const KindRules& kind, base::Json& object);
void ConvertToStored(const api::KindInfo& info, base::Json& object);  // of a built-in kind

// DecodeStored, DecodeRecord, EncodeObject and AppendWithRevision (object_text.h) in the form of
// `kind`.
base::StatusOr<base::Json> DecodeStoredAs(const KindRules& kind, std::string_view text);
base::StatusOr<base::Json> DecodeRecordAs(const KindRules& kind, const store::Record& record);
std::string EncodeStored(const KindRules& kind, base::Json object);
// Parse only if the forms differ. A damaged text is used unchanged.
void AppendAs(const KindRules& kind, std::string& out, std::string_view text,
              store::Revision revision);
std::string TextAs(const KindRules& kind, std::string_view text, store::Revision revision);

}  // namespace berth::apiserver
