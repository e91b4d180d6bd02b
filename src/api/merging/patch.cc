#include "api/merging/patch.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"

namespace berth::api {
namespace {

using base::Error;
using base::Json;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMaxOperations = 10000;
// The sum of copied bytes is bounded, because each "copy" can double the document.
constexpr size_t kMaxCopiedBytes = 3 * 1024 * 1024;
// Each "copy" can double the depth, too, and what visits a document takes stack for each level. The
// limit is above that of requests, because managedFields nest deeper, and below that of
// DecodeStored.
constexpr size_t kMaxDepth = 100;
// How many values the operations may look at and shift in arrays, all together.
constexpr size_t kMaxWork = 20'000'000;

using Pointer = std::vector<std::string>;

// RFC 6901: "" is the document, "~1" stands for '/', "~0" for '~'.
StatusOr<Pointer> ParsePointer(std::string_view text) {
  Pointer pointer;
  if (text.empty()) return pointer;
  if (text.front() != '/') {
    return Error(StatusCode::kInvalidArgument, "JSON pointer {} does not start with '/'",
                 Quote(text));
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/') {
      pointer.emplace_back();
    } else if (text[i] != '~') {
      pointer.back() += text[i];
    } else if (i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1')) {
      pointer.back() += text[++i] == '0' ? '~' : '/';
    } else {
      return Error(StatusCode::kInvalidArgument, "JSON pointer {} has a bad '~' escape",
                   Quote(text));
    }
  }
  return pointer;
}

// Parses the index of an array in a pointer. It must be below `end`, or with `allow_end` it may
// also be `end`, as a number or as "-". npos: it is not such an index.
size_t ParseIndex(std::string_view token, size_t end, bool allow_end) {
  if (token == "-") return allow_end ? end : std::string_view::npos;
  if (token.empty() || token.size() > 9 || (token.size() > 1 && token.front() == '0')) {
    return std::string_view::npos;
  }
  size_t index = 0;
  for (const char c : token) {
    if (c < '0' || c > '9') return std::string_view::npos;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return index < end || (allow_end && index == end) ? index : std::string_view::npos;
}

// The value at the first `length` tokens of `pointer`; nullptr if there is none.
Json* FindValue(Json& document, const Pointer& pointer, size_t length) {
  Json* at = &document;
  for (size_t i = 0; i < length; ++i) {
    if (at->is_object()) {
      const auto it = at->find(pointer[i]);
      if (it == at->end()) return nullptr;
      at = &*it;
    } else if (at->is_array()) {
      const size_t index = ParseIndex(pointer[i], at->size(), /*allow_end=*/false);
      if (index == std::string_view::npos) return nullptr;
      at = &(*at)[index];
    } else {
      return nullptr;
    }
  }
  return at;
}

class JsonPatcher {
 public:
  explicit JsonPatcher(Json document) : document_(std::move(document)) {}

  Status Apply(const Json& operation) {
    if (!operation.is_object()) return Malformed("an operation is not an object");
    const std::string op = base::json::String(operation, {"op"});
    ASSIGN_OR_RETURN(const Pointer path, ReadPointer(operation, "path"));
    const auto value = operation.find("value");
    if (op == "remove") return Remove(path);
    if (op == "move" || op == "copy") {
      ASSIGN_OR_RETURN(const Pointer from, ReadPointer(operation, "from"));
      return op == "move" ? MoveMember(from, path) : Copy(from, path);
    }
    if (op != "add" && op != "replace" && op != "test") {
      return Error(StatusCode::kInvalidArgument, "JSON patch: unknown operation {}", Quote(op));
    }
    if (op == "test") {
      static const Json null;
      return Test(path, value == operation.end() ? null : *value);
    }
    if (value == operation.end()) return Malformed("an \"add\" or \"replace\" has no value");
    return op == "add" ? Add(path, *value) : Replace(path, *value);
  }

  Json TakeDocument() { return std::move(document_); }

 private:
  static Status Malformed(std::string_view what) {
    return Error(StatusCode::kInvalidArgument, "JSON patch: {}", what);
  }

  static StatusOr<Pointer> ReadPointer(const Json& operation, std::string_view name) {
    const Json* text = base::json::Find(operation, {name});
    if (text == nullptr || !text->is_string()) {
      return Error(StatusCode::kInvalidArgument, "JSON patch: an operation has no \"{}\"", name);
    }
    return ParsePointer(text->get_ref<const std::string&>());
  }

  static Status Missing(std::string_view op, const Pointer& path) {
    std::string text;
    for (const std::string& token : path) text += "/" + token;
    return Error(StatusCode::kFailedPrecondition, "JSON patch: {} of {}: there is no such path", op,
                 Quote(text));
  }

  Status CheckWork() const {
    if (work_ <= kMaxWork) return base::OkStatus();
    return Error(StatusCode::kResourceExhausted,
                 "JSON patch: the operations move more than {} values", kMaxWork);
  }

  // Checks that `value` may be put at `path`.
  Status CheckValue(const Pointer& path, const Json& value) {
    const auto count = [this](const Json&) { return ++work_ > kMaxWork; };
    if (path.size() > kMaxDepth ||
        base::json::IsDeeperThan(value, static_cast<int>(kMaxDepth - path.size()), count)) {
      return Error(StatusCode::kResourceExhausted,
                   "JSON patch: the object would nest deeper than {} levels", kMaxDepth);
    }
    return CheckWork();
  }

  Status Add(const Pointer& path, Json value) {
    RETURN_IF_ERROR(CheckValue(path, value));
    if (path.empty()) {
      document_ = std::move(value);
      return base::OkStatus();
    }
    Json* parent = FindValue(document_, path, path.size() - 1);
    if (parent == nullptr) return Missing("add", path);
    if (parent->is_object()) {
      (*parent)[path.back()] = std::move(value);
      return base::OkStatus();
    }
    if (!parent->is_array()) return Missing("add", path);
    const size_t index = ParseIndex(path.back(), parent->size(), /*allow_end=*/true);
    if (index == std::string_view::npos) return Missing("add", path);
    work_ += parent->size() - index;
    parent->insert(parent->begin() + static_cast<std::ptrdiff_t>(index), std::move(value));
    return base::OkStatus();
  }

  Status Replace(const Pointer& path, Json value) {
    RETURN_IF_ERROR(CheckValue(path, value));
    if (path.empty()) {
      document_ = std::move(value);
      return base::OkStatus();
    }
    Json* parent = FindValue(document_, path, path.size() - 1);
    if (parent != nullptr && parent->is_object()) {
      (*parent)[path.back()] = std::move(value);
      return base::OkStatus();
    }
    Json* target = FindValue(document_, path, path.size());
    if (target == nullptr) return Missing("replace", path);
    *target = std::move(value);
    return base::OkStatus();
  }

  Status Remove(const Pointer& path) {
    if (path.empty()) return Malformed("the whole document cannot be removed");
    if (FindValue(document_, path, path.size()) == nullptr) return Missing("remove", path);
    Json* parent = FindValue(document_, path, path.size() - 1);
    if (parent->is_object()) {
      parent->erase(path.back());
    } else {
      const size_t index = ParseIndex(path.back(), parent->size(), /*allow_end=*/false);
      work_ += parent->size() - index;
      parent->erase(index);
    }
    return CheckWork();
  }

  Status MoveMember(const Pointer& from, const Pointer& path) {
    Json* source = FindValue(document_, from, from.size());
    if (source == nullptr) return Missing("move", from);
    if (from == path) return base::OkStatus();
    if (path.size() > from.size() && std::equal(from.begin(), from.end(), path.begin())) {
      return Malformed("a value cannot move into itself");
    }
    Json value = std::move(*source);
    RETURN_IF_ERROR(Remove(from));
    return Add(path, std::move(value));
  }

  Status Copy(const Pointer& from, const Pointer& path) {
    const Json* source = FindValue(document_, from, from.size());
    if (source == nullptr) return Missing("copy", from);
    copied_bytes_ += base::json::Dump(*source).size();
    if (copied_bytes_ > kMaxCopiedBytes) {
      return Error(StatusCode::kFailedPrecondition,
                   "Unable to complete the copy, the accumulated size increase of copy is {}, "
                   "exceeding the limit {}",
                   copied_bytes_, kMaxCopiedBytes);
    }
    return Add(path, *source);
  }

  Status Test(const Pointer& path, const Json& value) {
    const Json* target = FindValue(document_, path, path.size());
    if (target == nullptr ? value.is_null() : *target == value) return base::OkStatus();
    std::string text;
    for (const std::string& token : path) text += "/" + token;
    return Error(StatusCode::kFailedPrecondition, "JSON patch: testing value {} failed", text);
  }

  Json document_;
  size_t copied_bytes_ = 0;
  size_t work_ = 0;
};

void MergeValue(Json& target, const Json& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target = Json::object();
  for (const auto& [key, value] : patch.items()) {
    if (value.is_null()) {
      target.erase(key);
    } else {
      MergeValue(target[key], value);
    }
  }
}

}  // namespace

StatusOr<Json> ApplyJsonPatch(Json document, const Json& patch) {
  if (!patch.is_array())
    return Error(StatusCode::kInvalidArgument, "a JSON patch must be an array");
  if (patch.size() > kMaxOperations) {
    return Error(StatusCode::kResourceExhausted,
                 "The allowed maximum operations in a JSON patch is {}, got {}", kMaxOperations,
                 patch.size());
  }
  JsonPatcher patcher(std::move(document));
  for (const Json& operation : patch) RETURN_IF_ERROR(patcher.Apply(operation));
  return patcher.TakeDocument();
}

StatusOr<Json> ApplyMergePatch(Json document, const Json& patch) {
  if (!patch.is_object())
    return Error(StatusCode::kInvalidArgument, "a merge patch must be an object");
  MergeValue(document, patch);
  return document;
}

}  // namespace berth::api
