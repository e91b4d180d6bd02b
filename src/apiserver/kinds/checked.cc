#include "apiserver/kinds/checked.h"

#include "api/quantity.h"

namespace berth::apiserver {

using base::Json;

namespace {

const Json kAbsent;

const Json* FindMember(const Json* value, std::string_view name) {
  if (value == nullptr || !value->is_object()) return nullptr;
  const auto it = value->find(name);
  return it == value->end() ? nullptr : &*it;
}

base::StatusOr<api::Quantity> QuantityOf(const Json& value) {
  return api::Quantity::Parse(value.is_string() ? value.get<std::string>()
                                                : base::json::Dump(value));
}

bool HasBackstep(std::string_view path) {
  while (true) {
    const size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

Checked Checked::operator[](std::string_view member) const {
  return {FindMember(value_, member), FindMember(old_, member), errors_,
          ChildField(field_, member)};
}

Checked Checked::Key(std::string_view key) const {
  return {FindMember(value_, key), FindMember(old_, key), errors_, KeyField(field_, key)};
}

std::vector<Checked> Checked::Items() const {
  std::vector<Checked> items;
  if (value_ == nullptr || !value_->is_array()) return items;
  for (size_t i = 0; i < value_->size(); ++i) {
    const bool before = old_ != nullptr && old_->is_array() && i < old_->size();
    items.push_back(
        Checked(&(*value_)[i], before ? &(*old_)[i] : nullptr, errors_, ItemField(field_, i)));
  }
  return items;
}

std::vector<std::pair<std::string, Checked>> Checked::Entries() const {
  std::vector<std::pair<std::string, Checked>> entries;
  if (value_ == nullptr || !value_->is_object()) return entries;
  for (const auto& [key, value] : value_->items()) entries.emplace_back(key, Key(key));
  return entries;
}

Checked Checked::Named(std::string_view field) const {
  return {value_, old_, errors_, std::string(field)};
}

const Json& Checked::json() const { return value_ != nullptr ? *value_ : kAbsent; }
const Json& Checked::old() const { return old_ != nullptr ? *old_ : kAbsent; }

bool Checked::given() const {
  return present() && !(value_->is_string() ? value_->get_ref<const std::string&>().empty()
                                            : value_->is_structured() && value_->empty());
}

std::string Checked::text() const {
  return value_ != nullptr && value_->is_string() ? value_->get<std::string>() : "";
}

int64_t Checked::number(int64_t fallback) const {
  return value_ != nullptr && value_->is_number_integer() ? value_->get<int64_t>() : fallback;
}

bool Checked::flag() const {
  return value_ != nullptr && value_->is_boolean() && value_->get<bool>();
}

bool Checked::Needed(std::string_view detail) const {
  if (!given()) Required(detail);
  return given();
}

bool Checked::OneOf(List supported) const { return Needed() && OneOfIfGiven(supported); }

bool Checked::OneOfIfGiven(List supported) const {
  if (!given() || std::find(supported.begin(), supported.end(), text()) != supported.end()) {
    return true;
  }
  NotSupported(supported);
  return false;
}

bool Checked::Is(base::Status (*check)(std::string_view)) const {
  const std::string value = text();
  const base::Status status = check(value);
  errors_->Check(field_, value, status);
  return status.ok();
}

bool Checked::IsIfGiven(base::Status (*check)(std::string_view)) const {
  return !given() || Is(check);
}

bool Checked::AtLeast(int64_t min) const {
  if (number(min) >= min) return true;
  Invalid(fmt::format("must be greater than or equal to {}", min));
  return false;
}

bool Checked::Between(int64_t min, int64_t max) const {
  if (const int64_t n = number(min); n >= min && n <= max) return true;
  Invalid(fmt::format("must be between {} and {}, inclusive", min, max));
  return false;
}

bool Checked::FileMode() const {
  if (const int64_t mode = number(); mode >= 0 && mode <= 0777) return true;
  Invalid("must be a number between 0 and 0777 (octal), both inclusive");
  return false;
}

bool Checked::NonNegativeQuantity() const {
  if (!present()) return true;
  const auto quantity = QuantityOf(*value_);
  errors_->Check(field_, *value_, quantity.status());
  if (quantity.ok() && *quantity < api::Quantity()) {
    Invalid("must be greater than or equal to 0");
    return false;
  }
  return quantity.ok();
}

bool Checked::PositiveQuantity() const {
  if (!present()) return true;
  const auto quantity = QuantityOf(*value_);
  errors_->Check(field_, *value_, quantity.status());
  if (quantity.ok() && *quantity <= api::Quantity()) {
    Invalid("must be greater than zero");
    return false;
  }
  return quantity.ok();
}

bool Checked::NoBacksteps() const {
  if (!HasBackstep(text())) return true;
  Invalid("must not contain '..'");
  return false;
}

bool Checked::RelativePath() const {
  const bool absolute = text().starts_with('/');
  if (absolute) Invalid("must be a relative path");
  return NoBacksteps() && !absolute;
}

bool Checked::Unique(std::set<std::string>& seen) const {
  if (seen.insert(text()).second) return true;
  Duplicate();
  return false;
}

bool Checked::Immutable() const {
  if (changed()) Invalid("field is immutable");
  return !changed();
}

bool Checked::Unchanged(std::string_view detail) const {
  if (changed()) Forbidden(detail);
  return !changed();
}

}  // namespace berth::apiserver
