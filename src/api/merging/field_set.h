// Sets of fields of an object, such as the fields of one manager (metadata.managedFields, type
// FieldsV1).
//
// A set is a tree of path elements, each in Kubernetes' own notation:
//
//   f:NAME           a member of an object or a map
//   k:{"name":"a"}   the item of a map list with these keys
//   v:"a"            the item of a set with this value
//   i:0              the item of a list with this index
//
//   {"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}}}}
//
// The field of a node is in the set if the node is a leaf or has the child ".". The children of a
// node are in the set in either case. Sets are plain values. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::api {

// The elements of a path, in the notation above. Equal elements have equal text: keys are sorted,
// without spaces, and a whole number has no fraction.
std::string FieldElement(std::string_view name);
std::string KeyElement(const base::Json& keys);
std::string ValueElement(const base::Json& value);

class FieldSet {
 public:
  struct Node;

  FieldSet();
  ~FieldSet();
  FieldSet(const FieldSet&);
  FieldSet(FieldSet&&) noexcept;
  FieldSet& operator=(const FieldSet&);
  FieldSet& operator=(FieldSet&&) noexcept;

  // INVALID_ARGUMENT: `fields` is not a FieldsV1. Elements of an unknown kind are left out.
  static base::StatusOr<FieldSet> FromJson(const base::Json& fields);
  base::Json ToJson() const;

  bool empty() const { return nodes_.empty(); }
  // The nodes, sorted by their element: by kind, and within a kind by name.
  const std::vector<Node>& nodes() const { return nodes_; }
  // nullptr: there is no such node.
  const Node* Find(std::string_view element) const;
  // Whether the field at `path` is in the set, and not only fields below it.
  bool Contains(std::initializer_list<std::string_view> path) const;

  // Adds `element` itself if `member` is true, and `children` below it. Adds nothing if `member` is
  // false and `children` is empty.
  void Add(std::string element, bool member, FieldSet children);
  // Adds `element` itself.
  void Add(std::string element);

  FieldSet Union(const FieldSet& other) const;
  FieldSet Intersection(const FieldSet& other) const;
  // This set without the fields of `other`. The children of a removed field stay.
  FieldSet Difference(const FieldSet& other) const;
  // This set without the fields of `other` and all fields below them.
  FieldSet RecursiveDifference(const FieldSet& other) const;
  bool operator==(const FieldSet& other) const;

  // How many fields are in the set.
  size_t count() const;
  // The first `most` fields as error messages name them: `.spec.containers[name="main"].image`.
  // Long paths are cut (base::ExtendFieldPath).
  std::vector<std::string> Paths(size_t most) const;

 private:
  FieldSet Without(const FieldSet& other, bool with_children) const;
  void AppendPaths(const std::string& prefix, size_t most, std::vector<std::string>& out) const;

  std::vector<Node> nodes_;  // sorted; each one is a member or has children
};

struct FieldSet::Node {
  std::string element;
  bool member = false;
  FieldSet children;
};

}  // namespace berth::api
