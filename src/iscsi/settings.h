// The member `cluster` of every request to `berth-iscsi`:
//
//   {"portals": ["10.0.0.5:3260"], "target": "iqn.2003-01.org.example:t", "owner": "UID",
//    "initiator": "iqn.…", "chapUser": "…", "chapPassword": "…"}
//
// `owner` is the name of the volume (reservation_key.h, ADR 39). Without `initiator`, the node's
// name makes one, so that a target's administrator can tell nodes apart.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "iscsi/reservation_key.h"
#include "iscsi/session.h"

namespace berth::iscsi {

// The initiator name of a node without one of its own.
inline constexpr std::string_view kInitiatorPrefix = "iqn.2026-11.dev.berth:";

struct Settings {
  LoginOptions login;  // with a random ISID
  KeyOwner owner;
  std::string node;  // this one
};

// Reads `cluster` and `node` of a request. INVALID_ARGUMENT names the member that is wrong; the
// message never has the secret.
base::StatusOr<Settings> ReadSettings(const base::Json& request);

// The member `lun`: 0 to 16383. INVALID_ARGUMENT: it is missing or is no such number.
base::StatusOr<uint16_t> ReadLun(const base::Json& request);

uint64_t MakeIsid();

}  // namespace berth::iscsi
