// Sets of fields of an object: who manages what (metadata.managedFields, type FieldsV1).
//
// A set is a tree of path elements, each in Kubernetes' own notation:
//
//   f:NAME           a member of an object or a map
//   k:{"name":"a"}   the item of a map list with these keys
//   v:"a"            the item of a set with this value
//   i:0              an item by its place
//
//   {"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}}}}
//
// A node is in the set itself when it is a leaf or has the child "."; its children are in the set
// independently of that. Values with ordinary value semantics; pure.
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

  // INVALID_ARGUMENT for what is no FieldsV1. Elements of a kind unknown here are left out.
  static base::StatusOr<FieldSet> FromJson(const base::Json& fields);
  base::Json ToJson() const;

  bool empty() const { return nodes_.empty(); }
  // In the order of their text, which is that of their kinds and, within one, of their names.
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node* Find(std::string_view element) const;
  bool Contains(std::initializer_list<std::string_view> path) const;

  // Adds `element`: itself if `member` is set, and what `children` hold below it. Without either it
  // adds nothing.
  void Add(std::string element, bool member, FieldSet children);
  void Add(std::string element);

  FieldSet Union(const FieldSet& other) const;
  FieldSet Intersection(const FieldSet& other) const;
  // Without the fields of `other`; the children of a removed field stay.
  FieldSet Difference(const FieldSet& other) const;
  // Without the fields of `other` and all below them.
  FieldSet RecursiveDifference(const FieldSet& other) const;
  bool operator==(const FieldSet& other) const;

  // Each field as error messages name it: `.spec.containers[name="main"].image`.
  std::vector<std::string> Paths() const;

 private:
  FieldSet Without(const FieldSet& other, bool with_children) const;
  void AppendPaths(const std::string& prefix, std::vector<std::string>& out) const;

  std::vector<Node> nodes_;  // sorted; each a member or with children
};

struct FieldSet::Node {
  std::string element;
  bool member = false;
  FieldSet children;
};

}  // namespace berth::api
