#include "api/merging/field_set.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/log.h"
#include "base/text.h"

namespace berth::api {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

// Converts 1.0 to 1, so that equal values have equal text.
Json ToCanonical(const Json& value) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::trunc(number) == number && std::abs(number) < kExactIntegers) {
      return static_cast<int64_t>(number);
    }
  }
  return value;
}

bool ComesBefore(const FieldSet::Node& node, std::string_view element) {
  return node.element < element;
}

// Returns the element in the canonical notation of this set; empty for an unknown kind of element.
StatusOr<std::string> ParseElement(const std::string& text) {
  if (text.size() < 2 || text[1] != ':') {
    return Error(StatusCode::kInvalidArgument, "{} is not a path element", Quote(text));
  }
  const std::string_view rest = std::string_view(text).substr(2);
  switch (text[0]) {
    case 'f':
      return text;
    case 'i':
      if (rest.empty() || rest.size() > 9 || rest.find_first_not_of("0123456789") != rest.npos) {
        return Error(StatusCode::kInvalidArgument, "{} is not an index of a list", Quote(text));
      }
      return text;
    case 'v':
    case 'k': {
      auto value = base::json::Parse(rest);
      if (!value.ok() || (text[0] == 'k' && !value->is_object())) {
        return Error(StatusCode::kInvalidArgument, "{} is not a path element", Quote(text));
      }
      return text[0] == 'k' ? KeyElement(*value) : ValueElement(*value);
    }
    default:
      return std::string();
  }
}

// The element as a part of a path in a message.
std::string PathPart(const std::string& element) {
  const std::string_view rest = std::string_view(element).substr(2);
  if (element[0] == 'f') return fmt::format(".{}", rest);
  if (element[0] == 'v') return fmt::format("[={}]", rest);
  if (element[0] == 'i') return fmt::format("[{}]", rest);
  std::string out;
  const Json keys = base::json::Parse(rest).value_or(Json::object());
  for (const auto& [name, value] : keys.items()) {
    out += fmt::format("{}{}={}", out.empty() ? "" : ",", name, base::json::Dump(value));
  }
  return fmt::format("[{}]", out);
}

}  // namespace

std::string FieldElement(std::string_view name) {
  std::string out;
  out.reserve(name.size() + 2);
  return out.append("f:").append(name);
}

std::string KeyElement(const Json& keys) {
  Json canonical = Json::object();
  for (const auto& [name, value] : keys.items()) canonical[name] = ToCanonical(value);
  return "k:" + base::json::Dump(canonical);
}

std::string ValueElement(const Json& value) { return "v:" + base::json::Dump(ToCanonical(value)); }

FieldSet::FieldSet() = default;
FieldSet::~FieldSet() = default;
FieldSet::FieldSet(const FieldSet&) = default;
FieldSet::FieldSet(FieldSet&&) noexcept = default;
FieldSet& FieldSet::operator=(const FieldSet&) = default;
FieldSet& FieldSet::operator=(FieldSet&&) noexcept = default;

StatusOr<FieldSet> FieldSet::FromJson(const Json& fields) {
  if (!fields.is_object()) {
    return Error(StatusCode::kInvalidArgument, "a set of fields must be an object");
  }
  FieldSet out;
  for (const auto& [text, below] : fields.items()) {
    if (text == ".") continue;  // it was read with the parent
    ASSIGN_OR_RETURN(std::string element, ParseElement(text));
    if (element.empty()) continue;
    ASSIGN_OR_RETURN(FieldSet children, FromJson(below));
    const bool member = children.empty() || below.contains(".");
    out.Add(std::move(element), member, std::move(children));
  }
  return out;
}

Json FieldSet::ToJson() const {
  Json out = Json::object();
  for (const Node& node : nodes_) {
    Json& below = out[node.element];
    below = node.children.ToJson();
    if (node.member && !node.children.empty()) below["."] = Json::object();
  }
  return out;
}

const FieldSet::Node* FieldSet::Find(std::string_view element) const {
  const auto it = std::lower_bound(nodes_.begin(), nodes_.end(), element, ComesBefore);
  return it == nodes_.end() || it->element != element ? nullptr : &*it;
}

bool FieldSet::Contains(std::initializer_list<std::string_view> path) const {
  const FieldSet* at = this;
  const Node* node = nullptr;
  for (const std::string_view element : path) {
    node = at->Find(element);
    if (node == nullptr) return false;
    at = &node->children;
  }
  return node != nullptr && node->member;
}

void FieldSet::Add(std::string element, bool member, FieldSet children) {
  if (!member && children.empty()) return;
  // Most elements go to the end, because the members of JSON objects are sorted.
  auto it = nodes_.end();
  if (!nodes_.empty() && nodes_.back().element >= element) {
    it = std::lower_bound(nodes_.begin(), nodes_.end(), element, ComesBefore);
  }
  if (it == nodes_.end() || it->element != element) {
    nodes_.insert(it, Node{std::move(element), member, std::move(children)});
    return;
  }
  it->member |= member;
  it->children = it->children.empty() ? std::move(children) : it->children.Union(children);
}

void FieldSet::Add(std::string element) { Add(std::move(element), true, {}); }

FieldSet FieldSet::Union(const FieldSet& other) const {
  FieldSet out;
  out.nodes_.reserve(std::max(nodes_.size(), other.nodes_.size()));
  auto a = nodes_.begin();
  auto b = other.nodes_.begin();
  while (a != nodes_.end() && b != other.nodes_.end()) {
    if (a->element < b->element) {
      out.nodes_.push_back(*a++);
    } else if (b->element < a->element) {
      out.nodes_.push_back(*b++);
    } else {
      out.nodes_.push_back({a->element, a->member || b->member, a->children.Union(b->children)});
      ++a, ++b;
    }
  }
  out.nodes_.insert(out.nodes_.end(), a, nodes_.end());
  out.nodes_.insert(out.nodes_.end(), b, other.nodes_.end());
  return out;
}

FieldSet FieldSet::Intersection(const FieldSet& other) const {
  FieldSet out;
  auto b = other.nodes_.begin();
  for (const Node& node : nodes_) {
    while (b != other.nodes_.end() && b->element < node.element) ++b;
    if (b == other.nodes_.end()) break;
    if (b->element != node.element) continue;
    out.Add(node.element, node.member && b->member, node.children.Intersection(b->children));
  }
  return out;
}

FieldSet FieldSet::Without(const FieldSet& other, bool with_children) const {
  FieldSet out;
  auto b = other.nodes_.begin();
  for (const Node& node : nodes_) {
    while (b != other.nodes_.end() && b->element < node.element) ++b;
    if (b == other.nodes_.end() || b->element != node.element) {
      out.nodes_.push_back(node);
    } else if (!(with_children && b->member)) {
      out.Add(node.element, node.member && !b->member,
              node.children.Without(b->children, with_children));
    }
  }
  return out;
}

FieldSet FieldSet::Difference(const FieldSet& other) const { return Without(other, false); }

FieldSet FieldSet::RecursiveDifference(const FieldSet& other) const { return Without(other, true); }

bool FieldSet::operator==(const FieldSet& other) const {
  return std::equal(nodes_.begin(), nodes_.end(), other.nodes_.begin(), other.nodes_.end(),
                    [](const Node& a, const Node& b) {
                      return a.member == b.member && a.element == b.element &&
                             a.children == b.children;
                    });
}

size_t FieldSet::count() const {
  size_t sum = 0;
  for (const Node& node : nodes_) sum += (node.member ? 1 : 0) + node.children.count();
  return sum;
}

void FieldSet::AppendPaths(const std::string& prefix, size_t most,
                           std::vector<std::string>& out) const {
  const auto path = [&](const Node& node) {
    return base::ExtendFieldPath(prefix, PathPart(node.element));
  };
  // The order is that of Kubernetes: first the fields of one level, then the fields below each.
  for (const Node& node : nodes_) {
    if (out.size() >= most) return;
    if (node.member) out.push_back(path(node));
  }
  for (const Node& node : nodes_) {
    if (out.size() >= most) return;
    if (!node.children.empty()) node.children.AppendPaths(path(node), most, out);
  }
}

std::vector<std::string> FieldSet::Paths(size_t most) const {
  std::vector<std::string> out;
  AppendPaths("", most, out);
  return out;
}

}  // namespace berth::api
