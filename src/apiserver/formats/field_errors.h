// Collects the errors of a validation, each with its field and Kubernetes' message.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "api/kind_info.h"
#include "apiserver/formats/kube_status.h"
#include "base/json.h"

namespace berth::apiserver {

// The functions that add an error have the names of Kubernetes' field package. `field` is a path:
// "spec.ports[0].name". At most 100 errors are kept, and a long field or message is cut.
class FieldErrors {
 public:
  void Required(std::string_view field, std::string_view detail = "");
  void Invalid(std::string_view field, const base::Json& value, std::string_view detail);
  // Like Invalid, for values that Kubernetes shows in another form than JSON.
  void InvalidText(std::string_view field, std::string_view shown, std::string_view detail);
  void NotSupported(std::string_view field, const base::Json& value,
                    std::initializer_list<std::string_view> supported);
  void NotSupported(std::string_view field, const base::Json& value,
                    const std::vector<std::string>& supported);
  // The value has the wrong type.
  void TypeInvalid(std::string_view field, const base::Json& value, std::string_view detail);
  void TooMany(std::string_view field, size_t count, size_t max);
  void Forbidden(std::string_view field, std::string_view detail);
  void NotFound(std::string_view field, const base::Json& value);
  void Duplicate(std::string_view field, const base::Json& value);
  void TooLong(std::string_view field, size_t max_bytes);

  // Adds Invalid with the message of `status`, which is a check's result (api/names.h); adds
  // nothing for OK.
  void Check(std::string_view field, const base::Json& value, const base::Status& status);
  // Adds Invalid "field is immutable" if the values differ.
  void Immutable(std::string_view field, const base::Json* value, const base::Json* old);

  bool empty() const { return causes_.empty(); }
  size_t count() const { return causes_.size(); }
  // Whether an error (required, wrong type, too long, too many) makes further checks of the object
  // useless.
  bool blocking() const;
  void Append(const FieldErrors& others);
  // 422 Invalid with all causes; OK if there are none.
  base::Status ToStatus(const api::KindInfo& kind, std::string_view name) const;

 private:
  void Add(std::string_view reason, std::string_view field, std::string message);

  std::vector<ErrorDetails::Cause> causes_;
};

// The paths of a member, of an item and of a map's entry below `field`: "spec.x" for "spec" and
// "x", "x" for "" and "x", "spec[0]", "spec[key]". Long ones are cut (base::ExtendFieldPath).
std::string ChildField(const std::string& field, std::string_view name);
std::string ItemField(const std::string& field, size_t index);
std::string KeyField(const std::string& field, std::string_view key);

}  // namespace berth::apiserver
