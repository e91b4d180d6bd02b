#include "api/codecs/protobuf.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>

#include <random>

extern "C" const char berth_k8s_descriptors[];
extern "C" const char berth_k8s_descriptors_end[];

namespace berth::api {
namespace {

using base::Json;
using google::protobuf::DescriptorPool;
using google::protobuf::Message;

std::string Bytes(std::initializer_list<int> bytes) {
  std::string out;
  for (const int byte : bytes) out += static_cast<char>(byte);
  return out;
}

std::string Encode(const Schema& schema, const Json& object) {
  std::string out;
  AppendMessage(schema, base::json::Dump(object), out);
  return out;
}

Json Decode(const Schema& schema, std::string_view message) {
  auto object = DecodeMessage(schema, message);
  EXPECT_TRUE(object.ok()) << base::ToString(object.status());
  return object.value_or(Json());
}

// An object with a value in every field, `depth` objects deep. `seed` makes them differ.
Json Sample(const Schema& schema, int depth, int seed) {
  switch (schema.type) {
    case FieldType::kObject: {
      // A JSON schema holds others in fifteen places.
      if (schema.name.ends_with(".JSONSchemaProps")) depth = std::min(depth, 2);
      Json object = Json::object();
      for (const Field& field : schema.fields) {
        if (field.number == 0 || (depth == 0 && !field.inlined)) continue;
        const Json member = Sample(*field.type, depth - (field.inlined ? 0 : 1), ++seed);
        if (field.inlined) {
          object.update(member);
        } else if (!member.empty() || field.type->type == FieldType::kObject) {
          object[field.name] = member;
        }
      }
      return object;
    }
    case FieldType::kMap: {
      if (depth == 0) return nullptr;
      return {{"a", Sample(*schema.element, depth, seed)},
              {"b/c", Sample(*schema.element, depth, seed + 1)}};
    }
    case FieldType::kList:
      if (depth == 0) return nullptr;
      return Json::array(
          {Sample(*schema.element, depth, seed), Sample(*schema.element, depth, seed + 1)});
    case FieldType::kString:
    case FieldType::kDuration:
      return fmt::format("text {}", seed);
    case FieldType::kInteger:
      return seed % 3 == 0 ? -seed : seed * 100;
    case FieldType::kNumber:
      return seed + 0.5;
    case FieldType::kBoolean:
      return true;
    case FieldType::kBytes:
      return "AAEC/w==";
    case FieldType::kQuantity:
      return fmt::format("{}Gi", seed);
    case FieldType::kIntOrString:
      return seed % 2 == 0 ? Json(seed) : Json("25%");
    case FieldType::kTime:
      return "2026-01-02T03:04:05Z";
    case FieldType::kMicroTime:
      return "2026-01-02T03:04:05.678901Z";
    case FieldType::kAny:
      return {{"f:a", {{".", Json::object()}}}, {"list", {1, "two", nullptr, false, 2.5}}};
    case FieldType::kUnion:
      if (schema.name.ends_with("ExtraValue")) return {"one", "two"};
      return seed % 2 == 0 || depth == 0 ? Json(Json::object({{"type", "string"}}))
             : schema.name.ends_with("OrBool")
                 ? Json(false)
                 : Json::array({schema.name.ends_with("OrStringArray")
                                    ? Json("name")
                                    : Json::object({{"type", "string"}})});
  }
  return nullptr;
}

// The same messages as protobuf's own library sees them.
class Reference {
 public:
  Reference() {
    google::protobuf::FileDescriptorSet set;
    set.ParseFromArray(berth_k8s_descriptors,
                       static_cast<int>(berth_k8s_descriptors_end - berth_k8s_descriptors));
    google::protobuf::FileDescriptorProto descriptor_proto;
    google::protobuf::FileDescriptorProto::descriptor()->file()->CopyTo(&descriptor_proto);
    pool_.BuildFile(descriptor_proto);
    // Each file behind those that it imports.
    std::function<void(const std::string&)> add = [&](const std::string& name) {
      if (pool_.FindFileByName(name) != nullptr) return;
      for (const auto& file : set.file()) {
        if (file.name() != name) continue;
        for (const std::string& import : file.dependency()) add(import);
        pool_.BuildFile(file);
      }
    };
    for (const auto& file : set.file()) add(file.name());
  }

  std::unique_ptr<Message> New(std::string name) {
    std::replace(name.begin(), name.end(), '-', '_');
    const auto* descriptor = pool_.FindMessageTypeByName(name);
    return descriptor == nullptr
               ? nullptr
               : std::unique_ptr<Message>(factory_.GetPrototype(descriptor)->New());
  }

 private:
  DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_;
};

std::vector<const Schema*> KindsInProtobuf() {
  std::vector<const Schema*> schemas;
  for (const KindInfo* info : BuiltInKinds()) {
    if (const Schema* schema = SchemaOf(*info); HasProtobuf(schema)) schemas.push_back(schema);
  }
  for (const char* name : {"Status", "DeleteOptions", "PartialObjectMetadata",
                           "io.k8s.api.authentication.v1.TokenRequest",
                           "io.k8s.api.authorization.v1.SelfSubjectAccessReview"}) {
    schemas.push_back(NamedSchema(name));
  }
  return schemas;
}

TEST(Protobuf, ConfigMapIsTheseBytes) {
  const Schema* schema = SchemaOf(kinds::kConfigMap);
  const Json object = {{"apiVersion", "v1"},
                       {"kind", "ConfigMap"},
                       {"metadata", {{"name", "m"}, {"namespace", "d"}}},
                       {"data", {{"k", "v"}}},
                       {"immutable", false}};
  // immutable has presence: false is written.
  EXPECT_EQ(Encode(*schema, object), Bytes({0x12, 6, 0x0a, 1, 'k', 0x12, 1, 'v', 0x20, 0,  //
                                            0x0a, 6, 0x0a, 1, 'm', 0x1a, 1, 'd'}));
  EXPECT_EQ(MakeEnvelope("v1", "ConfigMap", "X"),
            Bytes({'k', '8', 's', 0, 0x0a, 15, 0x0a, 2, 'v', '1', 0x12, 9}) + "ConfigMap" +
                Bytes({0x12, 1, 'X', 0x1a, 0, 0x22, 0}));
}

TEST(Protobuf, AGoClientsClaimReadsAsItsJson) {
  // As Go writes it: the zeros of what it holds by value are on the wire.
  const std::string message = Bytes({0x0a, 18,   0x0a, 1,    'c', 0x12, 0, 0x1a, 1, 'd', 0x22,
                                     0,    0x2a, 0,    0x32, 0,   0x38, 0, 0x42, 0}) +  // metadata
                              Bytes({0x12, 28}) +                                       // spec
                              Bytes({0x0a, 3, 'R', 'W', 'O'}) +  // accessModes
                              Bytes({0x12, 17, 0x12, 15, 0x0a, 7}) +
                              "storage" +                            // resources.requests
                              Bytes({0x12, 4, 0x0a, 2, '1', 'G'}) +  //
                              Bytes({0x1a, 0, 0x2a, 0}) +            // volumeName, class: ""
                              Bytes({0x1a, 2, 0x0a, 0});             // status.phase: ""
  const Json claim = Decode(*SchemaOf(kinds::kPersistentVolumeClaim), message);
  EXPECT_EQ(claim, Json({{"metadata", {{"name", "c"}, {"namespace", "d"}}},
                         {"spec",
                          {{"accessModes", {"RWO"}},
                           {"resources", {{"requests", {{"storage", "1G"}}}}},
                           {"storageClassName", ""}}},
                         {"status", Json::object()}}));
}

TEST(Protobuf, ListsOfNumbersMayBePacked) {
  const Schema* context = NamedSchema("io.k8s.api.core.v1.PodSecurityContext");
  EXPECT_EQ(Encode(*context, {{"supplementalGroups", {1, 300}}}), Bytes({0x20, 1, 0x20, 0xac, 2}));
  EXPECT_EQ(Decode(*context, Bytes({0x22, 3, 1, 0xac, 2}))["supplementalGroups"], Json({1, 300}));
}

TEST(Protobuf, TimesAndIntOrStrings) {
  const Schema* probe = NamedSchema("io.k8s.api.core.v1.HTTPGetAction");
  EXPECT_EQ(Encode(*probe, {{"port", 80}}), Bytes({0x12, 6, 8, 0, 16, 80, 26, 0}));
  EXPECT_EQ(Encode(*probe, {{"port", "web"}}), Bytes({0x12, 9, 8, 1, 16, 0, 26, 3, 'w', 'e', 'b'}));
  const Schema* lease = NamedSchema("io.k8s.api.coordination.v1.LeaseSpec");
  const Json spec = {{"renewTime", "1970-01-01T00:00:01.000002Z"}};
  EXPECT_EQ(Encode(*lease, spec), Bytes({0x22, 5, 8, 1, 16, 0xd0, 0x0f}));
  EXPECT_EQ(Decode(*lease, Encode(*lease, spec)), spec);
  // A time that was never set is an empty message.
  EXPECT_EQ(Decode(*lease, Bytes({0x22, 0})), Json::object());
}

TEST(Protobuf, EveryKindComesBackAsItWas) {
  for (const Schema* schema : KindsInProtobuf()) {
    for (const int seed : {1, 2}) {
      const Json object = Sample(*schema, 9, seed);
      EXPECT_EQ(Decode(*schema, Encode(*schema, object)), object) << schema->name;
    }
  }
}

bool HasUnknownFields(const Message& message) {
  const auto* reflection = message.GetReflection();
  if (!reflection->GetUnknownFields(message).empty()) return true;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (HasUnknownFields(reflection->GetMessage(message, field))) return true;
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      if (HasUnknownFields(reflection->GetRepeatedMessage(message, field, i))) return true;
    }
  }
  return false;
}

TEST(Protobuf, ProtobufsOwnLibraryReadsTheSame) {
  Reference reference;
  for (const Schema* schema : KindsInProtobuf()) {
    const Json object = Sample(*schema, 7, 1);
    const auto message = reference.New(schema->name);
    ASSERT_NE(message, nullptr) << schema->name;
    ASSERT_TRUE(message->ParseFromString(Encode(*schema, object))) << schema->name;
    EXPECT_FALSE(HasUnknownFields(*message)) << schema->name;
    EXPECT_EQ(Decode(*schema, message->SerializeAsString()), object) << schema->name;
  }
}

TEST(Protobuf, WhatHasNoPlaceIsLeftOut) {
  const Schema* schema = SchemaOf(kinds::kStorageClass);
  EXPECT_EQ(Encode(*schema, {{"provisioner", 5},
                             {"allowRuntimeAssistedMount", true},
                             {"nobody", {{"knows", {1, {{"a", 2}}}}}},
                             {"parameters", nullptr},
                             {"reclaimPolicy", "Delete"}}),
            Bytes({0x22, 6}) + "Delete");
}

TEST(Protobuf, UnknownFieldsAreSkipped) {
  const Schema* schema = SchemaOf(kinds::kConfigMap);
  const std::string known = Bytes({0x12, 6, 0x0a, 1, 'k', 0x12, 1, 'v'});
  // There is an unknown field of each wire type; a group is one of them.
  for (const std::string& unknown :
       {Bytes({0xa0, 0x06, 5}), Bytes({0xa2, 0x06, 2, 'x', 'y'}), Bytes({0xa5, 0x06, 1, 2, 3, 4}),
        Bytes({0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8}), Bytes({0xa3, 0x06, 0x08, 1, 0xa4, 0x06})}) {
    EXPECT_EQ(Decode(*schema, unknown + known + unknown), Json({{"data", {{"k", "v"}}}}));
  }
}

TEST(Protobuf, MessagesInPartsAreMerged) {
  const Schema* schema = SchemaOf(kinds::kPersistentVolume);
  const Json csi = {{"spec", {{"csi", {{"driver", "d"}, {"volumeHandle", "h"}}}}}};
  const Json mode = {{"spec", {{"volumeMode", "Block"}, {"csi", {{"fsType", "xfs"}}}}}};
  Json both = csi;
  both.merge_patch(mode);
  EXPECT_EQ(Decode(*schema, Encode(*schema, csi) + Encode(*schema, mode)), both);
}

TEST(Protobuf, WrongInputIsRefused) {
  const Schema* schema = SchemaOf(kinds::kConfigMap);
  const auto refused = [&](const std::string& message) {
    return DecodeMessage(*schema, message).status().code() == base::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(Bytes({0x08, 1})));                               // a number for a message
  EXPECT_TRUE(refused(Bytes({0x0a, 5, 0x0a})));                         // cut off
  EXPECT_TRUE(refused(Bytes({0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})));    // 4 GiB
  EXPECT_TRUE(refused(Bytes({0})));                                     // field 0
  EXPECT_TRUE(refused(Bytes({0x0a, 3, 0x0a, 1, 0xff})));                // not UTF-8
  EXPECT_TRUE(refused(Bytes({0x0a, 5, 0x0a, 3, 0xed, 0xa0, 0x80})));    // a surrogate
  EXPECT_TRUE(refused(Bytes({0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  //
                             0xff, 0xff, 0xff, 0xff, 0xff, 1})));       // an endless number
  EXPECT_FALSE(OpenEnvelope("{}").ok());
  EXPECT_FALSE(OpenEnvelope(Bytes({'k', '8', 's', 0, 0x0a, 9})).ok());
}

TEST(Protobuf, DepthIsBounded) {
  const Schema* schema =
      NamedSchema("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
  const auto nested = [](int depth) {
    std::string message;
    for (int i = 0; i < depth; ++i) message.insert(0, MakeFieldHead(28, message.size()));  // "not"
    return message;
  };
  EXPECT_TRUE(DecodeMessage(*schema, nested(50)).ok());
  EXPECT_FALSE(DecodeMessage(*schema, nested(10'000)).ok());
  // Groups of an unknown field, too.
  EXPECT_FALSE(DecodeMessage(*schema, std::string(100'000, '\x0b')).ok());
}

// A message that is merged from many parts must not be copied for each.
TEST(Protobuf, ManyPartsTakeNoLongerThanOne) {
  const Schema* schema = SchemaOf(kinds::kPod);
  std::string message;
  for (int i = 0; i < 200'000; ++i) message += Bytes({0x12, 4, 0x12, 2, 0x0a, 0});
  const Json pod = Decode(*schema, message);
  EXPECT_EQ(pod["spec"]["containers"].size(), 200'000U);
}

TEST(Protobuf, BrokenMessagesBreakNothing) {
  std::minstd_rand random(1);
  for (const Schema* schema : KindsInProtobuf()) {
    const std::string whole = Encode(*schema, Sample(*schema, 4, 1));
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 200) {
      (void)DecodeMessage(*schema, std::string_view(whole).substr(0, size));
    }
    for (int i = 0; i < 200; ++i) {
      std::string broken = whole;
      for (int flips = 0; flips < 3; ++flips) {
        broken[random() % broken.size()] ^= static_cast<char>(1 << (random() % 8));
      }
      const auto object = DecodeMessage(*schema, broken);
      if (object.ok()) (void)Encode(*schema, *object);
    }
  }
}

TEST(Protobuf, EnvelopesOpen) {
  const std::string body = MakeEnvelope("apps/v1", "DaemonSet", "abc");
  const auto envelope = OpenEnvelope(body);
  ASSERT_TRUE(envelope.ok());
  EXPECT_EQ(envelope->api_version, "apps/v1");
  EXPECT_EQ(envelope->kind, "DaemonSet");
  EXPECT_EQ(envelope->message, "abc");
}

TEST(Protobuf, WatchFramesSayTheirLength) {
  EXPECT_EQ(MakeWatchFrame("ADDED", "xy"),
            Bytes({0, 0, 0, 13, 0x0a, 5, 'A', 'D', 'D', 'E', 'D', 0x12, 4, 0x0a, 2, 'x', 'y'}));
}

TEST(Protobuf, WatchFramesOpen) {
  const std::string frame = MakeWatchFrame("ADDED", "xy");
  const auto opened = OpenWatchFrame(std::string_view(frame).substr(4));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->type, "ADDED");
  EXPECT_EQ(opened->object, "xy");
  EXPECT_FALSE(OpenWatchFrame(std::string_view(frame).substr(5)).ok());
}

TEST(Protobuf, ReadersMayRefuseUnknownFieldsAtAnyDepth) {
  const Schema* schema = SchemaOf(kinds::kPersistentVolume);
  const Json volume = {{"metadata", {{"name", "v"}}}, {"spec", {{"volumeMode", "Block"}}}};
  const std::string known = Encode(*schema, volume);
  const DecodeOptions strict{.refuse_unknown = true};
  EXPECT_EQ(DecodeMessage(*schema, known, strict).value(), volume);
  const std::string field = Bytes({0xa2, 0x06, 1, 'x'});  // number 100
  std::string in_spec;
  AppendField(2, field, in_spec);
  for (const std::string& unknown : {field, in_spec}) {
    EXPECT_EQ(DecodeMessage(*schema, known + unknown, strict).status().code(),
              base::StatusCode::kUnimplemented);
    EXPECT_EQ(Decode(*schema, known + unknown), volume);
  }
}

TEST(Protobuf, AnUnwantedFieldIsLeftOut) {
  const Schema* schema = SchemaOf(kinds::kConfigMap);
  const Json managed = {
      {"metadata",
       {{"name", "c"}, {"managedFields", {{{"manager", "m"}, {"fieldsV1", Json::object()}}}}}}};
  const auto object = DecodeMessage(
      *schema, Encode(*schema, managed),
      {.unwanted = NamedSchema("ObjectMeta")->Find("managedFields"), .refuse_unknown = true});
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Json({{"metadata", {{"name", "c"}}}}));
}

TEST(Protobuf, WritersSayWhetherAMemberIsLost) {
  const Schema* schema = SchemaOf(kinds::kPersistentVolumeClaim);
  const auto whole = [&](std::string_view json) {
    std::string out;
    return AppendMessage(*schema, json, out);
  };
  EXPECT_TRUE(whole(R"({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                        "metadata": {"name": "c", "creationTimestamp": null, "labels": {}},
                        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
                                 "resources": {"requests": {"storage": "1Gi"}}}})"));
  EXPECT_FALSE(whole(R"({"spec": {"newField": 1}})"));
  EXPECT_FALSE(whole(R"({"spec": {"newField": {"a": []}}})"));
  EXPECT_FALSE(whole(R"({"newField": "x"})"));
  EXPECT_FALSE(whole(R"({"spec": "a text"})"));
  EXPECT_FALSE(whole(R"({"spec": {"volumeName": 1}})"));
  EXPECT_FALSE(whole(R"({"spec": {"accessModes": {"a": "b"}}})"));
  EXPECT_FALSE(whole(R"({"spec": {"accessModes": [null]}})"));
  EXPECT_FALSE(whole(R"({"metadata": {"creationTimestamp": "yesterday"}})"));
  EXPECT_FALSE(whole(R"({"metadata": {"name": "cut o)"));
}

TEST(Protobuf, FieldsThatExistInJsonOnlyAreNamed) {
  EXPECT_TRUE(IsWholeInProtobuf(SchemaOf(kinds::kPersistentVolume)));
  EXPECT_TRUE(IsWholeInProtobuf(SchemaOf(kinds::kPod)));
  EXPECT_TRUE(IsWholeInProtobuf(SchemaOf(kinds::kCustomResourceDefinition)));
  // allowRuntimeAssistedMount
  EXPECT_FALSE(IsWholeInProtobuf(SchemaOf(kinds::kStorageClass)));
  EXPECT_FALSE(IsWholeInProtobuf(SchemaOf(kinds::kHostMount)));
  EXPECT_FALSE(IsWholeInProtobuf(nullptr));
}

TEST(Protobuf, HostMountsHaveNone) {
  EXPECT_FALSE(HasProtobuf(SchemaOf(kinds::kHostMount)));
  EXPECT_TRUE(HasProtobuf(SchemaOf(kinds::kPod)));
  EXPECT_FALSE(HasProtobuf(nullptr));
}

}  // namespace
}  // namespace berth::api
