// Converts a structural schema to the tree of types that apply, OpenAPI, strict decoding and CEL
// read.
#pragma once

#include <string>

#include "apiserver/custom/structural_schema.h"

namespace berth::apiserver {

// The tree of a whole object, with apiVersion, kind and metadata; `name` is its name in OpenAPI.
// Its nodes are in `arena`, and each node of `schema` gets its own (StructuralSchema::tree).
const api::Schema* MakeSchemaTree(StructuralSchema& schema, std::string name,
                                  api::SchemaArena& arena);

}  // namespace berth::apiserver
