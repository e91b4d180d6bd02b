#include "rpc/csi_limits.h"

#include <google/protobuf/descriptor.h>
#include <limits.h>

namespace berth::rpc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kMaxString = 128;
constexpr size_t kMaxNodeId = 256;
constexpr size_t kMaxMap = 4096;
constexpr size_t kMaxPath = PATH_MAX - 1;

template <typename... Args>
base::Status InvalidError(fmt::format_string<Args...> format, Args&&... args) {
  return base::Error(base::StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

size_t StringLimit(const FieldDescriptor& field, const CsiLimits& limits) {
  const std::string& name = field.name();
  if (name == "staging_target_path" || name == "target_path" || name == "volume_path") {
    return kMaxPath;
  }
  return limits.factor * (name == "node_id" ? kMaxNodeId : kMaxString);
}

// The sum of the sizes of all entries bounds a map and the mount flags.
base::Status CheckSum(const Message& message, const FieldDescriptor& field,
                      const CsiLimits& limits) {
  const auto* reflection = message.GetReflection();
  size_t sum = 0;
  for (int i = 0; i < reflection->FieldSize(message, &field); ++i) {
    if (field.is_map()) {
      const Message& entry = reflection->GetRepeatedMessage(message, &field, i);
      const auto* type = entry.GetDescriptor();
      for (int n = 0; n < type->field_count(); ++n) {
        sum += entry.GetReflection()->GetString(entry, type->field(n)).size();
      }
    } else {
      sum += reflection->GetRepeatedString(message, &field, i).size();
    }
  }
  const size_t most = limits.factor * kMaxMap;
  if (sum > most) return InvalidError("'{}' is larger than {} bytes", field.name(), most);
  return base::OkStatus();
}

base::Status CheckString(const FieldDescriptor& field, const std::string& value,
                         const CsiLimits& limits) {
  const size_t most = StringLimit(field, limits);
  if (value.size() > most) return InvalidError("'{}' is longer than {} bytes", field.name(), most);
  if (value.find('\0') != std::string::npos)
    return InvalidError("'{}' has a zero byte", field.name());
  return base::OkStatus();
}

base::Status CheckField(const Message& message, const FieldDescriptor& field,
                        const CsiLimits& limits) {
  const auto* reflection = message.GetReflection();
  if (field.is_map() || field.name() == "mount_flags") return CheckSum(message, field, limits);
  const int count = field.is_repeated() ? reflection->FieldSize(message, &field) : 1;
  if (count > limits.max_repeated) {
    return InvalidError("'{}' has more than {} entries", field.name(), limits.max_repeated);
  }
  for (int i = 0; i < count; ++i) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        RETURN_IF_ERROR(CheckString(field,
                                    field.is_repeated()
                                        ? reflection->GetRepeatedString(message, &field, i)
                                        : reflection->GetString(message, &field),
                                    limits));
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        RETURN_IF_ERROR(CheckLimits(field.is_repeated()
                                        ? reflection->GetRepeatedMessage(message, &field, i)
                                        : reflection->GetMessage(message, &field),
                                    limits));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        if (!field.is_repeated() && reflection->GetInt64(message, &field) < 0) {
          return InvalidError("'{}' is negative", field.name());
        }
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        if (!field.is_repeated() && reflection->GetInt32(message, &field) < 0) {
          return InvalidError("'{}' is negative", field.name());
        }
        break;
      default:
        break;
    }
  }
  return base::OkStatus();
}

}  // namespace

base::Status CheckLimits(const Message& message, const CsiLimits& limits) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    RETURN_IF_ERROR(CheckField(message, *field, limits));
  }
  return base::OkStatus();
}

}  // namespace berth::rpc
