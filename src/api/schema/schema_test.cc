#include "api/schema/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace berth::api {
namespace {

const Schema* At(const Schema* schema, std::initializer_list<std::string_view> path) {
  for (const std::string_view name : path) {
    while (schema != nullptr && schema->type == FieldType::kList) schema = schema->element;
    const Field* field = schema == nullptr ? nullptr : schema->Find(name);
    schema = field == nullptr ? nullptr : field->type;
  }
  return schema;
}

TEST(Schema, EveryKindHasOneWithMetadata) {
  for (const KindInfo* info : BuiltInKinds()) {
    const Schema* schema = SchemaOf(*info);
    ASSERT_NE(schema, nullptr) << info->kind;
    EXPECT_NE(schema->Find("apiVersion"), nullptr) << info->kind;
    ASSERT_NE(schema->Find("metadata"), nullptr) << info->kind;
    EXPECT_EQ(schema->Find("metadata")->type, NamedSchema("ObjectMeta")) << info->kind;
    EXPECT_FALSE(schema->description.empty()) << info->kind;
    if (info->review) continue;  // is not listed, and its status is the answer
    EXPECT_NE(NamedSchema(schema->name + "List"), nullptr) << info->kind;
    EXPECT_EQ(info->has_status, schema->Find("status") != nullptr) << info->kind;
  }
}

TEST(Schema, OfAnUnknownKindIsNone) {
  EXPECT_EQ(SchemaOf("example.com/v1", "Pod"), nullptr);
  EXPECT_EQ(NamedSchema("NoSuchThing"), nullptr);
}

TEST(Schema, NamesAreThoseOfOpenApi) {
  EXPECT_EQ(SchemaOf(kinds::kPod)->name, "io.k8s.api.core.v1.Pod");
  EXPECT_EQ(SchemaOf("apiextensions.k8s.io/v1", "CustomResourceDefinition")->name,
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition");
}

TEST(Schema, TypesOfFields) {
  const Schema* pod = SchemaOf(kinds::kPod);
  EXPECT_EQ(At(pod, {"metadata", "creationTimestamp"})->type, FieldType::kTime);
  EXPECT_EQ(At(pod, {"metadata", "labels"})->type, FieldType::kMap);
  EXPECT_EQ(At(pod, {"metadata", "labels"})->element->type, FieldType::kString);
  EXPECT_EQ(At(pod, {"spec", "priority"})->format, "int32");
  EXPECT_EQ(At(pod, {"spec", "activeDeadlineSeconds"})->format, "int64");
  EXPECT_EQ(At(pod, {"spec", "containers", "resources", "limits"})->element->type,
            FieldType::kQuantity);
  EXPECT_EQ(At(pod, {"spec", "containers", "livenessProbe", "httpGet", "port"})->type,
            FieldType::kIntOrString);
  EXPECT_EQ(At(SchemaOf(kinds::kSecret), {"data"})->element->type, FieldType::kBytes);
  EXPECT_EQ(At(SchemaOf(kinds::kLease), {"spec", "renewTime"})->type, FieldType::kMicroTime);
}

TEST(Schema, InlinedMembersAreFoundInTheParent) {
  const Schema* volume = At(SchemaOf(kinds::kPod), {"spec", "volumes"})->element;
  ASSERT_NE(volume->Find("persistentVolumeClaim"), nullptr);
  EXPECT_EQ(volume->Find("persistentVolumeClaim")->number, 10);
  EXPECT_EQ(volume->Find("volumeSource"), nullptr);
}

// Protobuf reads and writes members of inlined messages on the assumption that these inline nothing
// more.
TEST(Schema, InlinedMessagesInlineNothing) {
  for (const Schema* schema : NamedSchemas()) {
    for (const Field& field : schema->fields) {
      if (!field.inlined) continue;
      for (const Field& inner : field.type->fields) EXPECT_FALSE(inner.inlined) << schema->name;
    }
  }
}

TEST(Schema, ListsSayHowTheyMerge) {
  const Schema* pod = SchemaOf(kinds::kPod);
  const Schema* ports = At(pod, {"spec", "containers", "ports"});
  EXPECT_EQ(ports->list_type, ListType::kMap);
  EXPECT_THAT(ports->list_keys, testing::ElementsAre("containerPort", "protocol"));
  EXPECT_EQ(ports->patch_merge_key, "containerPort");
  EXPECT_EQ(ports->element->Find("protocol")->default_value, "TCP");

  const Schema* volumes = At(pod, {"spec", "volumes"});
  EXPECT_TRUE(volumes->patch_retain_keys);
  const Schema* finalizers = At(pod, {"metadata", "finalizers"});
  EXPECT_EQ(finalizers->list_type, ListType::kSet);
  EXPECT_TRUE(finalizers->patch_merge);
  EXPECT_EQ(At(pod, {"spec", "tolerations"})->list_type, ListType::kAtomic);
  EXPECT_FALSE(At(pod, {"spec", "tolerations"})->patch_merge);
}

TEST(Schema, ClaimRefMergesAlthoughReferencesDoNot) {
  EXPECT_TRUE(NamedSchema("io.k8s.api.core.v1.ObjectReference")->atomic);
  const Schema* claim_ref = At(SchemaOf(kinds::kPersistentVolume), {"spec", "claimRef"});
  EXPECT_FALSE(claim_ref->atomic);
  EXPECT_NE(claim_ref->Find("resourceVersion"), nullptr);
}

TEST(Schema, JsonOnlyFieldsHaveNoNumber) {
  const Field* field = SchemaOf(kinds::kStorageClass)->Find("allowRuntimeAssistedMount");
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->number, 0);
  EXPECT_EQ(SchemaOf(kinds::kHostMount)->Find("metadata")->number, 0);
}

TEST(Schema, PresenceTellsZeroFromAbsence) {
  const Schema* claim = At(SchemaOf(kinds::kPersistentVolumeClaim), {"spec"});
  EXPECT_TRUE(claim->Find("storageClassName")->has_presence);
  EXPECT_FALSE(claim->Find("volumeName")->has_presence);
}

}  // namespace
}  // namespace berth::api
