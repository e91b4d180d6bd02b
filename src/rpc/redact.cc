#include "rpc/redact.h"

#include <google/protobuf/text_format.h>

#include "proto/csi.pb.h"

namespace berth::rpc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kLongest = 2048;
constexpr std::string_view kTokensKey = "csi.storage.k8s.io/serviceAccount.tokens";

bool IsSecret(const FieldDescriptor& field) {
  return field.options().GetExtension(csi::v1::csi_secret) || field.name() == "mount_flags";
}

std::string StrippedText(int entries) { return fmt::format("<{} stripped>", entries); }

// Replaces the field's content by the number of its entries.
void StripField(Message& message, const Reflection& reflection, const FieldDescriptor& field) {
  const int entries = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
  reflection.ClearField(&message, &field);
  if (field.is_map()) {
    Message* entry = reflection.AddMessage(&message, &field);
    const FieldDescriptor* key = entry->GetDescriptor()->map_key();
    if (key->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      entry->GetReflection()->SetString(entry, key, StrippedText(entries));
    }
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    if (field.is_repeated()) {
      reflection.AddString(&message, &field, StrippedText(entries));
    } else {
      reflection.SetString(&message, &field, StrippedText(entries));
    }
  }
}

// In map<string, string> fields the tokens are recognised by their key.
void StripTokens(Message& entry) {
  const FieldDescriptor* key = entry.GetDescriptor()->map_key();
  const FieldDescriptor* value = entry.GetDescriptor()->map_value();
  if (key->cpp_type() != FieldDescriptor::CPPTYPE_STRING ||
      value->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return;
  }
  const Reflection* reflection = entry.GetReflection();
  if (reflection->GetString(entry, key) == kTokensKey) {
    reflection->SetString(&entry, value, StrippedText(1));
  }
}

void RedactMessage(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (IsSecret(*field)) {
      StripField(message, reflection, *field);
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    } else if (!field->is_repeated()) {
      RedactMessage(*reflection.MutableMessage(&message, field));
    } else {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        Message& element = *reflection.MutableRepeatedMessage(&message, field, i);
        field->is_map() ? StripTokens(element) : RedactMessage(element);
      }
    }
  }
}

}  // namespace

std::string RedactedText(const Message& message) {
  const std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  // A field that this build does not know may be a secret.
  copy->DiscardUnknownFields();
  RedactMessage(*copy);
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(*copy, &text);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  return text;
}

}  // namespace berth::rpc
