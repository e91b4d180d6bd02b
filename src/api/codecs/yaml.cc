#include "api/codecs/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <istream>
#include <map>
#include <optional>
#include <set>
#include <streambuf>

#include "api/codecs/yaml_scalar.h"
#include "base/log.h"

namespace berth::api {
namespace {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// Thrown to end the parser from within a callback, because yaml-cpp offers no other way. It never
// leaves ParseYaml.
struct Abort {
  Status status;
};

[[noreturn]] void Fail(const YAML::Mark& mark, StatusCode code, std::string_view message) {
  throw Abort{Error(code, "YAML line {}: {}", mark.line + 1, message)};
}

[[noreturn]] void Fail(const YAML::Mark& mark, std::string_view message) {
  Fail(mark, StatusCode::kInvalidArgument, message);
}

// A stream that reads a text without a copy.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // the get area is never written
    setg(begin, begin, begin + text.size());
  }
};

size_t CountValues(const Json& value) {
  size_t count = 1;
  if (value.is_structured()) {
    for (const Json& member : value) count += CountValues(member);
  }
  return count;
}

// The bytes of all strings and keys in `value`.
size_t CountBytes(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  size_t bytes = 0;
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) bytes += key.size() + CountBytes(member);
  } else if (value.is_array()) {
    for (const Json& item : value) bytes += CountBytes(item);
  }
  return bytes;
}

// The number of levels of arrays and objects in `value`; 0 for a scalar.
int DepthOf(const Json& value) {
  int depth = 0;
  if (!value.is_structured()) return depth;
  for (const Json& member : value) depth = std::max(depth, DepthOf(member));
  return depth + 1;
}

// Whether the quoted scalar that starts at `at`, perhaps after a tag and an anchor, has a closing
// quote; true for other scalars. The check is needed because yaml-cpp 0.7 accepts a scalar without
// it if the text ends with a newline.
bool IsQuoteClosed(std::string_view text, size_t at) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (at < text.size() && (is_blank(text[at]) || text[at] == '!' || text[at] == '&')) {
    const bool property = !is_blank(text[at]);
    for (++at; property && at < text.size() && !is_blank(text[at]);) ++at;
  }
  if (at >= text.size() || (text[at] != '\'' && text[at] != '"')) return true;
  const char quote = text[at];
  for (++at; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      if (quote == '"' || !text.substr(at + 1).starts_with('\'')) return true;
      ++at;
    }
  }
  return false;
}

// Builds JSON from the parser's events.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view text, const YamlLimits& limits, std::vector<std::string>* duplicates)
      : text_(text), limits_(limits), duplicates_(duplicates) {}

  std::vector<Json> TakeDocuments() { return std::move(documents_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++document_count_ > limits_.max_documents) {
      Fail(mark, StatusCode::kResourceExhausted,
           fmt::format("more than {} documents", limits_.max_documents));
    }
    anchors_.clear();
  }

  void OnDocumentEnd() override {
    if (!root_.is_null()) documents_.push_back(std::move(root_));
    root_ = nullptr;
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    CountNewValues(mark, 1);
    AddValue(mark, anchor, nullptr, /*plain=*/true, "");
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end()) Fail(mark, "an alias refers to a value that contains it");
    CountNewValues(mark, it->second.values);
    CountCopiedBytes(mark, it->second.bytes);
    if (static_cast<int>(open_.size()) + it->second.depth > limits_.max_depth) FailTooDeep(mark);
    Json copy = it->second.value;
    AddValue(mark, 0, std::move(copy), /*plain=*/false, "");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    CountNewValues(mark, 1);
    // "?" marks a plain scalar, "!" a quoted one.
    const bool plain = tag == "?" || tag.empty();
    if (!plain && !IsQuoteClosed(text_, static_cast<size_t>(mark.pos))) {
      Fail(mark, "a quoted text does not end");
    }
    AddValue(mark, anchor, plain ? ResolvePlainScalar(value) : ResolveTagged(mark, tag, value),
             plain, value);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    OpenNode(mark, tag, "tag:yaml.org,2002:seq", anchor, Json::array());
  }
  void OnSequenceEnd() override { CloseNode(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    OpenNode(mark, tag, "tag:yaml.org,2002:map", anchor, Json::object());
  }
  void OnMapEnd() override {
    AddMergedMembers(open_.back());
    CloseNode();
  }

 private:
  struct Node {
    Json value;
    YAML::anchor_t anchor;
    YAML::Mark mark;
    std::optional<std::string> key;  // of the member whose value comes next
    std::vector<Json> merges;        // values of "<<"
    bool merge_next = false;
  };
  struct Anchored {
    Json value;
    size_t values;
    size_t bytes;
    int depth;
  };

  [[noreturn]] void FailTooDeep(const YAML::Mark& mark) const {
    Fail(mark, StatusCode::kInvalidArgument,
         fmt::format("nests deeper than {} levels", limits_.max_depth));
  }

  void CountNewValues(const YAML::Mark& mark, size_t values) {
    values_ += values;
    if (values_ > limits_.max_values) {
      Fail(mark, StatusCode::kResourceExhausted,
           fmt::format("more than {} values, aliases expanded", limits_.max_values));
    }
  }

  void CountCopiedBytes(const YAML::Mark& mark, size_t bytes) {
    copied_bytes_ += bytes;
    if (copied_bytes_ > limits_.max_copied_bytes) {
      Fail(mark, StatusCode::kResourceExhausted,
           fmt::format("anchors and aliases copy more than {} bytes", limits_.max_copied_bytes));
    }
  }

  // The value of a scalar that is quoted or has a tag.
  static Json ResolveTagged(const YAML::Mark& mark, const std::string& tag,
                            const std::string& value) {
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return value;
    Json resolved = ResolvePlainScalar(value);
    if ((tag == "tag:yaml.org,2002:int" && resolved.is_number_integer()) ||
        (tag == "tag:yaml.org,2002:float" && resolved.is_number()) ||
        (tag == "tag:yaml.org,2002:bool" && resolved.is_boolean()) ||
        (tag == "tag:yaml.org,2002:null" && resolved.is_null())) {
      return resolved;
    }
    Fail(mark, fmt::format("tag {} does not suit {}", base::Quote(tag), base::Quote(value)));
  }

  void OpenNode(const YAML::Mark& mark, const std::string& tag, std::string_view own_tag,
                YAML::anchor_t anchor, Json value) {
    if (tag != "?" && tag != "!" && !tag.empty() && tag != own_tag) {
      Fail(mark, fmt::format("tag {} is not supported", base::Quote(tag)));
    }
    if (static_cast<int>(open_.size()) >= limits_.max_depth) FailTooDeep(mark);
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().key &&
        !open_.back().merge_next) {
      Fail(mark, "a key must be a scalar");
    }
    CountNewValues(mark, 1);
    open_.push_back({std::move(value), anchor, mark, std::nullopt, {}, false});
  }

  void CloseNode() {
    Node node = std::move(open_.back());
    open_.pop_back();
    AddValue(node.mark, node.anchor, std::move(node.value), /*plain=*/false, "");
  }

  // Adds a complete value to the value that contains it. `text` is the text of a plain scalar; it
  // is needed to recognise the key "<<".
  void AddValue(const YAML::Mark& mark, YAML::anchor_t anchor, Json value, bool plain,
                std::string_view text) {
    if (anchor != 0) {
      const size_t values = CountValues(value);
      const size_t bytes = CountBytes(value);
      // They count twice, because the anchor keeps a copy.
      CountNewValues(mark, values);
      CountCopiedBytes(mark, bytes);
      anchors_.insert_or_assign(anchor, Anchored{value, values, bytes, DepthOf(value)});
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Node& node = open_.back();
    if (node.value.is_array()) {
      node.value.push_back(std::move(value));
    } else if (node.merge_next) {
      node.merge_next = false;
      node.merges.push_back(std::move(value));
    } else if (node.key) {
      node.value[*node.key] = std::move(value);
      node.key.reset();
    } else {
      SetKey(mark, node, value, plain, text);
    }
  }

  void SetKey(const YAML::Mark& mark, Node& node, const Json& value, bool plain,
              std::string_view text) {
    if (value.is_structured()) Fail(mark, "a key must be a scalar");
    if (plain && text == "<<") {
      node.merge_next = true;
      return;
    }
    std::string key = value.is_string() ? value.get<std::string>()
                      : value.is_null() ? "null"
                                        : base::json::Dump(value);
    if (node.value.contains(key)) {
      if (duplicates_ == nullptr) {
        Fail(mark, fmt::format("key {} is already set", base::Quote(key)));
      }
      if (duplicates_->size() < kMaxDuplicates) {
        duplicates_->push_back(fmt::format("line {}: key {} already set in map", mark.line + 1,
                                           base::json::Dump(Json(key))));
      }
    }
    // The member is added now, so that the check above also finds keys whose value has not come
    // yet.
    node.value[key] = nullptr;
    node.key = std::move(key);
  }

  // Adds the members of the mappings under "<<" that the mapping itself lacks. If several of them
  // have a member, the first one counts.
  void AddMergedMembers(Node& node) {
    for (const Json& merge : node.merges) {
      const Json list = merge.is_array() ? merge : Json::array({merge});
      for (const Json& from : list) {
        if (!from.is_object()) Fail(node.mark, "\"<<\" merges mappings only");
        for (const auto& [key, value] : from.items()) {
          if (!node.value.contains(key)) node.value[key] = value;
        }
      }
    }
  }

  static constexpr size_t kMaxDuplicates = 100;

  const std::string_view text_;
  const YamlLimits limits_;
  std::vector<std::string>* const duplicates_;
  std::vector<Json> documents_;
  Json root_;
  std::vector<Node> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  size_t document_count_ = 0;
  size_t values_ = 0;
  size_t copied_bytes_ = 0;
};

}  // namespace

StatusOr<std::vector<Json>> ParseYaml(std::string_view text, const YamlLimits& limits,
                                      std::vector<std::string>* duplicates) {
  if (text.size() > limits.max_bytes) {
    return Error(StatusCode::kResourceExhausted, "YAML of {} bytes exceeds the limit of {}",
                 text.size(), limits.max_bytes);
  }
  // Other encodings, which yaml-cpp would guess, contain zero bytes.
  if (text.find('\0') != std::string_view::npos) {
    return Error(StatusCode::kInvalidArgument, "YAML must be UTF-8 text without zero bytes");
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  try {
    ViewBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    Builder builder(text, limits, duplicates);
    while (parser.HandleNextDocument(builder)) {
    }
    std::vector<Json> documents = builder.TakeDocuments();
    // yaml-cpp does not check UTF-8, so the strict serialisation of the JSON library checks it.
    for (const Json& document : documents) (void)document.dump();
    return documents;
  } catch (const Json::exception&) {
    return Error(StatusCode::kInvalidArgument, "YAML must be UTF-8 text");
  } catch (const Abort& abort) {
    return abort.status;
  } catch (const YAML::Exception& e) {
    return Error(StatusCode::kInvalidArgument, "YAML line {}: {}", e.mark.line + 1, e.msg);
  } catch (const std::exception& e) {
    return Error(StatusCode::kInvalidArgument, "malformed YAML: {}", e.what());
  }
}

}  // namespace berth::api
