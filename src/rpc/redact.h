// Converts requests and answers to text for the log, without their secrets.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace berth::rpc {

// `message` on one line, cut after 2 KiB, with control characters escaped. These fields are
// replaced by the number of their entries: fields marked csi_secret, mount flags (CSI lets them
// carry secrets), and a service account's tokens in a volume context. Fields that this build does
// not know are left out.
std::string RedactedText(const google::protobuf::Message& message);

}  // namespace berth::rpc
