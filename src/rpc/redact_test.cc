#include "rpc/redact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/csi.pb.h"

namespace berth::rpc {
namespace {

using testing::HasSubstr;
using testing::Not;

// Fills every secret field of a message and of those within it; counts them.
int PlantSecrets(google::protobuf::Message& message, int depth) {
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  int planted = 0;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    if (field->options().GetExtension(csi::v1::csi_secret)) {
      auto* entry = reflection->AddMessage(&message, field);
      entry->GetReflection()->SetString(entry, entry->GetDescriptor()->map_key(), "s3cret-key");
      entry->GetReflection()->SetString(entry, entry->GetDescriptor()->map_value(), "s3cret-value");
      ++planted;
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE &&
               !field->is_map() && depth < 4) {
      auto* inner = field->is_repeated() ? reflection->AddMessage(&message, field)
                                         : reflection->MutableMessage(&message, field);
      planted += PlantSecrets(*inner, depth + 1);
    }
  }
  return planted;
}

TEST(RedactTest, NoSecretOfAnyCsiMessageIsShown) {
  const auto* file = csi::v1::CreateVolumeRequest::descriptor()->file();
  int planted = 0;
  for (int i = 0; i < file->message_type_count(); ++i) {
    const auto* prototype =
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(file->message_type(i));
    const std::unique_ptr<google::protobuf::Message> message(prototype->New());
    planted += PlantSecrets(*message, 0);
    EXPECT_THAT(RedactedText(*message), Not(HasSubstr("s3cret"))) << file->message_type(i)->name();
  }
  EXPECT_EQ(planted, 19);  // requests with a secrets field in CSI v1.12
}

TEST(RedactTest, TheRestIsShownAndSecretsAreCounted) {
  csi::v1::NodeStageVolumeRequest request;
  request.set_volume_id("vol-1");
  (*request.mutable_secrets())["user"] = "admin";
  (*request.mutable_secrets())["password"] = "hunter2";
  (*request.mutable_volume_context())["pool"] = "fast";
  const std::string text = RedactedText(request);
  EXPECT_THAT(text, HasSubstr("vol-1"));
  EXPECT_THAT(text, HasSubstr("fast"));
  EXPECT_THAT(text, HasSubstr("<2 stripped>"));
  EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  EXPECT_THAT(text, Not(HasSubstr("admin")));
  EXPECT_EQ(request.secrets().at("password"), "hunter2");
}

TEST(RedactTest, MountFlagsAndTokensAreSecretsToo) {
  csi::v1::NodePublishVolumeRequest request;
  auto* mount = request.mutable_volume_capability()->mutable_mount();
  mount->add_mount_flags("password=hunter2");
  mount->set_fs_type("ext4");
  (*request.mutable_volume_context())["csi.storage.k8s.io/serviceAccount.tokens"] =
      R"({"aud":{"token":"eyJ"}})";
  const std::string text = RedactedText(request);
  EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  EXPECT_THAT(text, Not(HasSubstr("eyJ")));
  EXPECT_THAT(text, HasSubstr("ext4"));
}

TEST(RedactTest, TextIsOneBoundedLine) {
  csi::v1::GetPluginInfoResponse response;
  response.set_name("a\nb");
  EXPECT_THAT(RedactedText(response), Not(HasSubstr("\n")));
  response.set_name(std::string(100'000, 'x'));
  EXPECT_LE(RedactedText(response).size(), 2100u);
}

}  // namespace
}  // namespace berth::rpc
