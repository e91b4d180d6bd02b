// A value under validation: its new and old content, its field path, and the list of errors.
//
//   const Checked spec = Checked(object, errors)["spec"];
//   spec["handler"].Is(api::CheckDns1123Label);
//   for (const Checked& port : spec["ports"].Items()) port["protocol"].OneOf({"TCP", "UDP"});
//
// Absent members can be named too, and most checks succeed for them. All errors have Kubernetes'
// messages. Borrows the objects and the errors. Cheap to copy.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/formats/field_errors.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::apiserver {

class Checked {
 public:
  using List = std::initializer_list<std::string_view>;

  Checked(const base::Json& object, FieldErrors& errors) : value_(&object), errors_(&errors) {}
  // For an update of `old` to `object`.
  Checked(const base::Json& object, const base::Json& old, FieldErrors& errors)
      : value_(&object), old_(&old), errors_(&errors) {}

  Checked operator[](std::string_view member) const;  // "field.member"
  Checked Key(std::string_view key) const;            // "field[key]", of a map
  std::vector<Checked> Items() const;                 // "field[0]"..., of a list; else none
  std::vector<std::pair<std::string, Checked>> Entries() const;  // of a map, by Key
  // The same value, whose errors name `field` instead of its own path.
  Checked Named(std::string_view field) const;

  const std::string& field() const { return field_; }
  const base::Json& json() const;  // null if absent
  const base::Json& old() const;
  bool present() const { return value_ != nullptr && !value_->is_null(); }
  // Whether it is present and not "", [] or {}.
  bool given() const;
  bool changed() const { return json() != old(); }
  std::string text() const;  // "" unless a string
  int64_t number(int64_t fallback = 0) const;
  bool flag() const;  // false unless it is true

  // These add errors about the value.
  void Required(std::string_view detail = "") const { errors_->Required(field_, detail); }
  void Invalid(std::string_view detail) const { errors_->Invalid(field_, json(), detail); }
  // Shows another value instead of its own, because Kubernetes does not show some values in
  // messages.
  void Invalid(const base::Json& shown, std::string_view detail) const {
    errors_->Invalid(field_, shown, detail);
  }
  void NotSupported(List supported) const { errors_->NotSupported(field_, json(), supported); }
  void Forbidden(std::string_view detail) const { errors_->Forbidden(field_, detail); }
  void Duplicate() const { errors_->Duplicate(field_, json()); }
  void Duplicate(const base::Json& shown) const { errors_->Duplicate(field_, shown); }
  void NotFound() const { errors_->NotFound(field_, json()); }
  void TooLong(size_t max_bytes) const { errors_->TooLong(field_, max_bytes); }

  // Checks. Each adds an error if it fails, and returns true if it holds.
  bool Needed(std::string_view detail = "") const;  // Required unless given
  bool OneOf(List supported) const;                 // Required or NotSupported
  bool OneOfIfGiven(List supported) const;
  bool Is(base::Status (*check)(std::string_view)) const;  // also checks an absent text
  bool IsIfGiven(base::Status (*check)(std::string_view)) const;
  bool AtLeast(int64_t min) const;  // holds for an absent value
  bool Between(int64_t min, int64_t max) const;
  bool FileMode() const;
  bool NonNegativeQuantity() const;
  bool PositiveQuantity() const;
  bool NoBacksteps() const;   // of a path: no part is ".."
  bool RelativePath() const;  // of a path: it is not absolute, and no part is ".."
  // Checks that the value is not in `seen` yet, and adds it.
  bool Unique(std::set<std::string>& seen) const;
  bool Immutable() const;
  bool Unchanged(std::string_view detail) const;  // Forbidden if changed

 private:
  Checked(const base::Json* value, const base::Json* old, FieldErrors* errors, std::string field)
      : value_(value), old_(old), errors_(errors), field_(std::move(field)) {}

  const base::Json* value_;
  const base::Json* old_ = nullptr;
  FieldErrors* errors_;
  std::string field_;
};

}  // namespace berth::apiserver
