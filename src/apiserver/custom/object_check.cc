#include "apiserver/custom/object_check.h"

#include <cmath>
#include <set>

#include "apiserver/custom/correlate.h"
#include "apiserver/custom/formats.h"
#include "base/utf8.h"

namespace berth::apiserver {

namespace {

// "integer" for 3 and 3.0, "number" for 3.5.
std::string_view TypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "boolean";
    case Json::value_t::string:
      return "string";
    case Json::value_t::array:
      return "array";
    case Json::value_t::object:
      return "object";
    case Json::value_t::number_float:
      return std::floor(value.get<double>()) == value.get<double>() ? "integer" : "number";
    default:
      return "integer";
  }
}

bool HasType(const StructuralSchema& schema, const Json& value) {
  if (value.is_null() && schema.nullable) return true;
  const std::string_view type = TypeName(value);
  if (schema.int_or_string) return type == "integer" || type == "string";
  return schema.type.empty() || schema.type == type ||
         (schema.type == "number" && type == "integer");
}

std::string NumberText(double value) { return fmt::format("{}", value); }

class Checker {
 public:
  // `settled`: the value is unchanged, so only allOf, anyOf, oneOf and not are checked.
  void CheckValue(const StructuralSchema& schema, const Json& value, const Json* old,
                  const std::string& field, bool settled, FieldErrors& errors) {
    settled = settled || (old != nullptr && *old == value);
    if (!settled && !CheckType(schema, value, field, errors)) return;
    if (value.is_null()) return;
    if (!settled) {
      CheckEnum(schema, value, field, errors);
      if (value.is_string()) CheckString(schema, value, field, errors);
      if (value.is_number()) CheckNumber(schema, value, field, errors);
      if (value.is_array()) CheckItemCount(schema, value, field, errors);
      if (value.is_object()) CheckMembers(schema, value, field, errors);
      if (value.is_array()) CheckUnique(schema, value, field, errors);
    }
    CheckCombinations(schema, value, field, errors);
    if (value.is_object()) CheckProperties(schema, value, old, field, settled, errors);
    if (value.is_array()) CheckItems(schema, value, old, field, settled, errors);
  }

 private:
  static std::string InBody(const std::string& field, std::string_view requirement) {
    return fmt::format("{} in body {}", field, requirement);
  }

  static bool CheckType(const StructuralSchema& schema, const Json& value, const std::string& field,
                        FieldErrors& errors) {
    if (!HasType(schema, value)) {
      const std::string wanted = schema.int_or_string ? "integer,string" : schema.type;
      errors.TypeInvalid(
          field, std::string(TypeName(value)),
          InBody(field, fmt::format("must be of type {}: \"{}\"", wanted, TypeName(value))));
      return false;
    }
    if (!schema.embedded || !value.is_object()) return true;
    for (const char* name : {"apiVersion", "kind"}) {
      if (base::json::String(value, {name}).empty()) {
        errors.Required(ChildField(field, name), "must not be empty");
      }
    }
    if (value.contains("metadata") && !value["metadata"].is_object()) {
      errors.TypeInvalid(ChildField(field, "metadata"), value["metadata"], "must be an object");
    }
    return true;
  }

  static void CheckEnum(const StructuralSchema& schema, const Json& value, const std::string& field,
                        FieldErrors& errors) {
    const auto& allowed = schema.enum_values;
    if (allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end())
      return;
    std::vector<std::string> names;
    for (const Json& one : allowed) {
      names.push_back(one.is_string() ? one.get<std::string>() : base::json::Dump(one));
    }
    errors.NotSupported(field, value, names);
  }

  static void CheckString(const StructuralSchema& schema, const Json& value,
                          const std::string& field, FieldErrors& errors) {
    const auto& text = value.get_ref<const std::string&>();
    const auto length = static_cast<int64_t>(base::CountCharacters(text));
    if (schema.max_length && length > *schema.max_length) {
      errors.TooLong(field, static_cast<size_t>(*schema.max_length));
    }
    if (schema.min_length && length < *schema.min_length) {
      errors.Invalid(
          field, value,
          InBody(field, fmt::format("should be at least {} chars long", *schema.min_length)));
    }
    if (schema.regex != nullptr && !RE2::PartialMatch(text, *schema.regex)) {
      errors.Invalid(field, value, InBody(field, fmt::format("should match '{}'", schema.pattern)));
    }
    if (!schema.format.empty() && !HasFormat(schema.format, text)) {
      errors.TypeInvalid(field, value,
                         InBody(field, fmt::format("must be of type {}: {}", schema.format,
                                                   base::json::Dump(value))));
    }
  }

  static void CheckNumber(const StructuralSchema& schema, const Json& value,
                          const std::string& field, FieldErrors& errors) {
    const auto number = value.get<double>();
    const auto invalid = [&](std::string_view requirement) {
      errors.Invalid(field, value, InBody(field, requirement));
    };
    if (schema.maximum) {
      const std::string limit = NumberText(*schema.maximum);
      if (schema.exclusive_maximum && number >= *schema.maximum) {
        invalid("should be less than " + limit);
      } else if (number > *schema.maximum) {
        invalid("should be less than or equal to " + limit);
      }
    }
    if (schema.minimum) {
      const std::string limit = NumberText(*schema.minimum);
      if (schema.exclusive_minimum && number <= *schema.minimum) {
        invalid("should be greater than " + limit);
      } else if (number < *schema.minimum) {
        invalid("should be greater than or equal to " + limit);
      }
    }
    if (schema.multiple_of && *schema.multiple_of > 0) {
      const double quotient = number / *schema.multiple_of;
      if (std::abs(quotient - std::round(quotient)) > 1e-9) {
        invalid("should be a multiple of " + NumberText(*schema.multiple_of));
      }
    }
    if (schema.format == "int32" && std::abs(number) > 2147483648.0) {
      errors.TypeInvalid(field, value,
                         InBody(field, "must be of type int32: " + base::json::Dump(value)));
    }
  }

  static void CheckItemCount(const StructuralSchema& schema, const Json& value,
                             const std::string& field, FieldErrors& errors) {
    const auto count = static_cast<int64_t>(value.size());
    if (schema.max_items && count > *schema.max_items) {
      errors.TooMany(field, value.size(), static_cast<size_t>(*schema.max_items));
    }
    if (schema.min_items && count < *schema.min_items) {
      errors.Invalid(
          field, count,
          InBody(field, fmt::format("should have at least {} items", *schema.min_items)));
    }
  }

  static void CheckMembers(const StructuralSchema& schema, const Json& value,
                           const std::string& field, FieldErrors& errors) {
    const auto count = static_cast<int64_t>(value.size());
    if (schema.max_properties && count > *schema.max_properties) {
      errors.TooMany(field, value.size(), static_cast<size_t>(*schema.max_properties));
    }
    if (schema.min_properties && count < *schema.min_properties) {
      errors.Invalid(
          field, count,
          InBody(field, fmt::format("should have at least {} properties", *schema.min_properties)));
    }
    for (const std::string& name : schema.required) {
      if (!value.contains(name)) errors.Required(ChildField(field, name));
    }
  }

  // Items of a set, and the keys of a map's items, must not repeat.
  static void CheckUnique(const StructuralSchema& schema, const Json& value,
                          const std::string& field, FieldErrors& errors) {
    if (schema.list_type == api::ListType::kAtomic) return;
    const bool map = schema.list_type == api::ListType::kMap;
    std::map<std::string, int> seen;
    for (size_t i = 0; i < value.size(); ++i) {
      if (map && !value[i].is_object()) continue;  // the wrong type has been reported already
      const Json key = map ? KeyOfItem(schema, value[i]) : value[i];
      // Only the second of equal items is reported, as in Kubernetes.
      if (++seen[base::json::Dump(key)] == 2) {
        errors.Duplicate(ItemField(field, i), key);
      }
    }
  }

  // How many of `alternatives` the value fits. `nearest` gets the errors of the alternative with
  // the fewest errors, among those that it does not fit.
  size_t CountFitting(const std::vector<StructuralPtr>& alternatives, const Json& value,
                      const std::string& field, std::optional<FieldErrors>& nearest) {
    size_t fitting = 0;
    for (const StructuralPtr& alternative : alternatives) {
      FieldErrors failures;
      CheckValue(*alternative, value, nullptr, field, false, failures);
      if (failures.empty()) {
        ++fitting;
      } else if (!nearest || failures.count() < nearest->count()) {
        nearest = std::move(failures);
      }
    }
    return fitting;
  }

  void CheckCombinations(const StructuralSchema& schema, const Json& value,
                         const std::string& field, FieldErrors& errors) {
    // These errors have no field, as in Kubernetes.
    const auto fail = [&](std::string_view requirement) {
      errors.Invalid("<nil>", "", fmt::format("\"{}\" must {}", field, requirement));
    };
    std::optional<FieldErrors> nearest;
    if (!schema.any_of.empty() && CountFitting(schema.any_of, value, field, nearest) == 0) {
      fail("validate at least one schema (anyOf)");
      errors.Append(*nearest);
    }
    nearest.reset();
    if (!schema.one_of.empty()) {
      const size_t fitting = CountFitting(schema.one_of, value, field, nearest);
      if (fitting == 0) {
        fail("validate one and only one schema (oneOf). Found none valid");
        errors.Append(*nearest);
      } else if (fitting > 1) {
        fail(fmt::format("validate one and only one schema (oneOf). Found {} valid alternatives",
                         fitting));
      }
    }
    FieldErrors failures;
    for (const StructuralPtr& part : schema.all_of) {
      CheckValue(*part, value, nullptr, field, false, failures);
    }
    if (!failures.empty()) {
      fail("validate all the schemas (allOf)");
      errors.Append(failures);
    }
    if (schema.not_one != nullptr) {
      FieldErrors unwanted;
      CheckValue(*schema.not_one, value, nullptr, field, false, unwanted);
      if (unwanted.empty()) fail("not validate the schema (not)");
    }
  }

  void CheckProperties(const StructuralSchema& schema, const Json& value, const Json* old,
                       const std::string& field, bool settled, FieldErrors& errors) {
    for (const auto& [name, member] : value.items()) {
      const StructuralSchema* known = schema.FindMember(name);
      if (known == nullptr) continue;
      CheckValue(*known, member, FindOldMember(schema, old, name), ChildField(field, name), settled,
                 errors);
    }
  }

  void CheckItems(const StructuralSchema& schema, const Json& value, const Json* old,
                  const std::string& field, bool settled, FieldErrors& errors) {
    if (schema.items == nullptr) return;
    const OldItems old_items(schema, old);
    for (size_t i = 0; i < value.size(); ++i) {
      CheckValue(*schema.items, value[i], old_items.Find(value[i]), ItemField(field, i), settled,
                 errors);
    }
  }
};

}  // namespace

void CheckObject(const StructuralSchema& schema, const Json& value, const Json* old,
                 const std::string& field, FieldErrors& errors) {
  Checker().CheckValue(schema, value, old, field, false, errors);
}

}  // namespace berth::apiserver
