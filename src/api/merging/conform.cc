#include "api/merging/conform.h"

#include <fmt/ranges.h>

#include <limits>
#include <set>

#include "api/quantity.h"
#include "api/time.h"
#include "base/base64.h"
#include "base/log.h"
#include "base/text.h"

namespace berth::api {
namespace {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;

constexpr size_t kMaxErrors = 100;
constexpr size_t kMaxQuoted = 256;

// The path of the member that is being visited, such as "spec.containers[0].name".
class Path {
 public:
  class Step {
   public:
    Step(Path& path, std::string_view member) : path_(path), size_(path.text_.size()) {
      if (size_ > 0) path.text_ += '.';
      path.text_ += member;
    }
    Step(Path& path, size_t index) : path_(path), size_(path.text_.size()) {
      path.text_ += fmt::format("[{}]", index);
    }
    ~Step() { path_.text_.resize(size_); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Path& path_;
    const size_t size_;
  };

  const std::string& text() const { return text_; }
  // Without indexes, as in messages of Go's JSON package.
  std::string WithoutIndexes() const {
    std::string out;
    bool index = false;
    for (const char c : text_) {
      if (c == '[') index = true;
      if (!index) out += c;
      if (c == ']') index = false;
    }
    return out;
  }

 private:
  std::string text_;
};

std::string_view ShortName(const Schema& schema) {
  const std::string_view name = schema.name;
  return name.substr(name.rfind('.') + 1);
}

std::string GoType(const Schema& type) {
  switch (type.type) {
    case FieldType::kObject:
      return type.name.empty() ? "struct" : fmt::format("v1.{}", ShortName(type));
    case FieldType::kMap:
      return fmt::format("map[string]{}", GoType(*type.element));
    case FieldType::kList:
      return fmt::format("[]{}", GoType(*type.element));
    case FieldType::kInteger:
      return type.format;
    case FieldType::kNumber:
      return "float64";
    case FieldType::kBoolean:
      return "bool";
    case FieldType::kBytes:
      return "[]uint8";
    case FieldType::kQuantity:
      return "resource.Quantity";
    case FieldType::kIntOrString:
      return "intstr.IntOrString";
    default:
      return "string";
  }
}

// The name of a JSON value's type in messages of Go's JSON package.
std::string GoValue(const Json& value, const Schema& type) {
  switch (value.type()) {
    case Json::value_t::object:
      return "object";
    case Json::value_t::array:
      return "array";
    case Json::value_t::boolean:
      return "bool";
    case Json::value_t::string:
      return "string";
    default:
      // If an integer is expected, this number does not fit, so the message shows it.
      return type.type == FieldType::kInteger ? "number " + base::json::Dump(value) : "number";
  }
}

bool Fits(const Schema& type, const Json& value) {
  switch (type.type) {
    case FieldType::kObject:
    case FieldType::kMap:
      return value.is_object();
    case FieldType::kList:
      return value.is_array();
    case FieldType::kInteger:
      if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return false;
      return value.is_number_integer() &&
             (type.format != "int32" ||
              (value.get<int64_t>() >= INT32_MIN && value.get<int64_t>() <= INT32_MAX));
    case FieldType::kNumber:
      return value.is_number();
    case FieldType::kBoolean:
      return value.is_boolean();
    case FieldType::kQuantity:
      return value.is_string() || value.is_number();
    case FieldType::kIntOrString:
      return value.is_string() || value.is_number_integer();
    case FieldType::kAny:
      return true;
    case FieldType::kUnion:
      return std::any_of(type.fields.begin(), type.fields.end(),
                         [&](const Field& field) { return Fits(*field.type, value); });
    default:
      return value.is_string();
  }
}

Json ZeroOf(const Schema& type) {
  switch (type.type) {
    case FieldType::kObject:
    case FieldType::kMap:
      return Json::object();
    case FieldType::kList:
      return Json::array();
    case FieldType::kInteger:
    case FieldType::kIntOrString:
      return 0;
    case FieldType::kNumber:
      return 0.0;
    case FieldType::kBoolean:
      return false;
    case FieldType::kQuantity:
      return "0";
    case FieldType::kAny:
    case FieldType::kUnion:
      return nullptr;
    default:
      return "";
  }
}

class Conformer {
 public:
  Conformer(const ConformOptions& options, StrictErrors& strict)
      : typed_(!options.custom), strict_(strict) {}

  // `parent` is the type of which `value` is a member.
  Status Visit(const Schema& type, const Schema& parent, Json& value) {
    if (!Fits(type, value)) return typed_ ? MisfitError(type, parent, value) : base::OkStatus();
    switch (type.type) {
      case FieldType::kObject:
        return VisitObject(type, value);
      case FieldType::kMap:
        return VisitMap(*type.element, parent, value);
      case FieldType::kList:
        return VisitList(*type.element, parent, value);
      case FieldType::kUnion:
        for (const Field& field : type.fields) {
          if (Fits(*field.type, value)) return Visit(*field.type, type, value);
        }
        return base::OkStatus();
      default:
        // Kubernetes' message has no path. Here it has one, because the author of a long manifest
        // needs it.
        return typed_ ? base::Annotate(Canonicalize(type, value), path_.text()) : base::OkStatus();
    }
  }

 private:
  Status MisfitError(const Schema& type, const Schema& parent, const Json& value) const {
    return Error(StatusCode::kInvalidArgument,
                 "json: cannot unmarshal {} into Go struct field {}.{} of type {}",
                 GoValue(value, type), ShortName(parent), path_.WithoutIndexes(), GoType(type));
  }

  Status VisitObject(const Schema& schema, Json& object) {
    for (auto it = object.begin(); it != object.end();) {
      const Path::Step step(path_, it.key());
      const Field* field = schema.Find(it.key());
      if (field == nullptr && !schema.preserve_unknown) {
        strict_.AddField("unknown", path_.text());
        it = object.erase(it);
      } else if (typed_ && it->is_null()) {
        it = object.erase(it);
      } else {
        if (field != nullptr) RETURN_IF_ERROR(VisitMember(*field->type, schema, *it));
        ++it;
      }
    }
    return base::OkStatus();
  }

  // The types of metadata are checked for custom resources, too, because all kinds have the same
  // metadata.
  Status VisitMember(const Schema& type, const Schema& parent, Json& value) {
    static const Schema* const metadata = NamedSchema("ObjectMeta");
    const bool was_typed = typed_;
    typed_ = typed_ || &type == metadata;
    const Status status = Visit(type, parent, value);
    typed_ = was_typed;
    return status;
  }

  Status VisitMap(const Schema& element, const Schema& parent, Json& map) {
    for (auto it = map.begin(); it != map.end(); ++it) {
      if (typed_ && it->is_null()) *it = ZeroOf(element);
      const Path::Step step(path_, it.key());
      RETURN_IF_ERROR(Visit(element, parent, *it));
    }
    return base::OkStatus();
  }

  Status VisitList(const Schema& element, const Schema& parent, Json& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (typed_ && list[i].is_null()) list[i] = ZeroOf(element);
      const Path::Step step(path_, i);
      RETURN_IF_ERROR(Visit(element, parent, list[i]));
    }
    return base::OkStatus();
  }

  static Status Canonicalize(const Schema& type, Json& value) {
    switch (type.type) {
      case FieldType::kBytes:
        if (base::DecodeBase64(value.get_ref<const std::string&>())) return base::OkStatus();
        return Error(StatusCode::kInvalidArgument, "illegal base64 data");
      case FieldType::kQuantity:
        return CanonicalizeQuantity(value);
      case FieldType::kTime:
      case FieldType::kMicroTime: {
        const std::string& text = value.get_ref<const std::string&>();
        if (type.type == FieldType::kMicroTime) RETURN_IF_ERROR(CheckMicroseconds(text));
        const auto time = ParseTime(text);
        if (!time.ok()) {
          return Error(StatusCode::kInvalidArgument,
                       "parsing time {} as \"2006-01-02T15:04:05Z07:00\": cannot parse it",
                       base::Quote(text.substr(0, kMaxQuoted)));
        }
        value = type.type == FieldType::kTime ? FormatTime(*time) : FormatMicroTime(*time);
        return base::OkStatus();
      }
      default:
        return base::OkStatus();
    }
  }

  // A MicroTime has six decimals, neither more nor fewer, as in Kubernetes.
  static Status CheckMicroseconds(std::string_view text) {
    constexpr std::string_view kFraction = ".000000";
    constexpr size_t kStart = std::string_view("2006-01-02T15:04:05").size();
    const std::string_view rest = text.size() < kStart ? "" : text.substr(kStart);
    const std::string_view digits = rest.substr(0, kFraction.size());
    const bool fits = digits.size() == kFraction.size() && digits.front() == '.' &&
                      digits.substr(1).find_first_not_of("0123456789") == std::string_view::npos;
    const std::string_view end = fits ? rest.substr(kFraction.size()) : rest;
    if (fits && (end.empty() || end.front() < '0' || end.front() > '9')) return base::OkStatus();
    return Error(StatusCode::kInvalidArgument,
                 "parsing time \"{}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{}\" "
                 "as \"{}\"",
                 text.substr(0, kMaxQuoted), end.substr(0, kMaxQuoted),
                 fits ? "Z07:00" : kFraction);
  }

  static Status CanonicalizeQuantity(Json& value) {
    const std::string text =
        value.is_string() ? value.get_ref<const std::string&>() : base::json::Dump(value);
    auto canonical = ToCanonicalQuantity(text);
    if (canonical.ok()) {
      value = *std::move(canonical);
      return base::OkStatus();
    }
    if (canonical.status().code() == StatusCode::kOutOfRange) return canonical.status();
    return Error(StatusCode::kInvalidArgument,
                 "quantities must match the regular expression "
                 "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
  }

  bool typed_;
  StrictErrors& strict_;
  Path path_;
};

size_t CountMembers(const Json& value) {
  if (!value.is_structured()) return 0;
  size_t count = value.is_object() ? value.size() : 0;
  for (const Json& member : value) count += CountMembers(member);
  return count;
}

// Counts the colons outside strings: one for each member of an object.
size_t CountColons(std::string_view text) {
  size_t count = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;
    if (!in_string && c == ':') ++count;
  }
  return count;
}

// Gets the parser's events, and keeps the path of the present member and the keys of the open
// objects.
class DuplicateFinder : public nlohmann::json_sax<Json> {
 public:
  explicit DuplicateFinder(StrictErrors& strict) : strict_(strict) {}

  bool null() override { return VisitScalar(); }
  bool boolean(bool /*value*/) override { return VisitScalar(); }
  bool number_integer(number_integer_t /*value*/) override { return VisitScalar(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return VisitScalar(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return VisitScalar();
  }
  bool string(string_t& /*value*/) override { return VisitScalar(); }
  bool binary(binary_t& /*value*/) override { return VisitScalar(); }
  bool start_object(size_t /*elements*/) override { return OpenLevel(false); }
  bool start_array(size_t /*elements*/) override { return OpenLevel(true); }
  bool end_object() override { return CloseLevel(); }
  bool end_array() override { return CloseLevel(); }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    path_.resize(level.path_size);
    if (!path_.empty()) path_ += '.';
    path_ += name;
    if (!level.keys.insert(name).second) strict_.AddField("duplicate", path_);
    return !strict_.full();
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  struct Level {
    bool array;
    size_t path_size;  // of the object or array itself
    size_t next = 0;   // index of an array's next item
    std::set<std::string, std::less<>> keys = {};
  };

  bool VisitScalar() {
    AdvanceIndex();
    return true;
  }
  // Before a value: if it is an item of an array, sets the index at the end of the path.
  void AdvanceIndex() {
    if (levels_.empty() || !levels_.back().array) return;
    path_.resize(levels_.back().path_size);
    path_ += fmt::format("[{}]", levels_.back().next++);
  }
  bool OpenLevel(bool array) {
    AdvanceIndex();
    levels_.push_back({.array = array, .path_size = path_.size()});
    return true;
  }
  bool CloseLevel() {
    path_.resize(levels_.back().path_size);
    levels_.pop_back();
    return true;
  }

  StrictErrors& strict_;
  std::string path_;
  std::vector<Level> levels_;
};

}  // namespace

void StrictErrors::Add(std::string error) {
  if (!full()) errors_.push_back(std::move(error));
}

void StrictErrors::AddField(std::string_view problem, std::string_view path) {
  // A text of a megabyte can have a hundred thousand wrong fields whose paths are as long.
  if (full()) return;
  errors_.push_back(
      fmt::format("{} field \"{}\"", problem, base::Shortened(path, base::kLongestFieldPath)));
}

bool StrictErrors::full() const { return errors_.size() >= kMaxErrors; }

std::string StrictErrors::Message() const {
  return fmt::format("strict decoding error: {}", fmt::join(errors_, ", "));
}

Status Conform(const Schema& schema, Json& object, const ConformOptions& options,
               StrictErrors& strict) {
  return Conformer(options, strict).Visit(schema, schema, object);
}

void FindDuplicates(std::string_view text, const Json& parsed, StrictErrors& strict) {
  if (CountColons(text) == CountMembers(parsed)) return;
  DuplicateFinder finder(strict);
  Json::sax_parse(text, &finder);
}

}  // namespace berth::api
