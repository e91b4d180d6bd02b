// The calls of `berth-iscsi call`. A request is one JSON object:
//
//   {"call": NAME, "cluster": {...}, "node": THIS_NODE, ...}        (settings.h)
//
//   | call    | members             | result
//   | check   |                     | {}: the portals answer and admit this node to the target
//   | list    | identities, brief   | luns: [{lun, identity, serial, size, blockSize, vendor,
//   |         |                     |   product, reserved, blank, problem}]. Only those LUNs are
//   |         |                     |   read for `blank`; all without `identities`. `brief`: only
//   |         |                     |   lun, identity and size, for which no data is read
//   | info    | lun                 | the same of one LUN
//   | holders | lun, nodes (names   | holders: [{node, address, key, reserved}], generally one of
//   |         |  to recognise)      |   each registration but the guard's; reservation: {type, key,
//   |         |                     |   guard}; ticket
//   | fence-  | lun, target (node), | keys: [...] that a fence of the node would hit now; ticket
//   | Targets |  identity           |
//   | fence   | lun, target (node), | keys: [...] that were removed: processes with one of
//   |         |  identity, keys     |   `keys`, or all of the node without it; ticket
//   | claim   | lun, identity,      | the same as of info: the LUN is now kept for a volume of this
//   |         |  size, recorded     |   StorageCluster, and nobody else can write to it
//   | wipe    | lun, identity, from | from, done, kept: overwrites a deleted volume with zeroes
//   |         |                     |   for some seconds; at the end the LUN is free (wipe.h)
//
// `ticket` is what `serve` needs to take the LUN (reservations.h). It is void after each fence,
// also one of no keys. A fence of the node that calls gives back what a killed process of it held.
//
// `own`: the reservation is that of a key of the calling node for this volume.
// `unread` of `list` is the number of LUNs that are there, but gave an error in place of an
// identity. `reserved` is "" | "guard" (the volume `owner`, and no node uses it) |
// "used". `blank` is null if it was not read or could not be. `problem` says why a LUN cannot be
// used.
//
// No call but `wipe` writes to a LUN's data. `identity` is that of `list`. DATA_LOSS: the LUN has
// another identity by now.
//
// A claim takes a LUN that is blank and has no reservation; of several at once one succeeds. The
// caller has durably recorded before whether it claims the LUN for the first time or again
// (`recorded`): then a LUN that this StorageCluster keeps already is accepted, also if it is no
// longer blank. OUT_OF_RANGE: it has less than `size` bytes. ALREADY_EXISTS: it holds another
// volume of this StorageCluster. FAILED_PRECONDITION: it holds data, or somebody else has it.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "iscsi/session.h"

namespace berth::iscsi {

// The time within which each call ends, whether or not the target answers.
inline constexpr std::chrono::milliseconds kCallTime{8'000};

// The failures are those of Session::LogIn, Inspect and Reservations. INVALID_ARGUMENT: a member is
// wrong, or there is no such call.
base::StatusOr<base::Json> RunCall(const base::Json& request, Deadline deadline);

}  // namespace berth::iscsi
