// The two names of a node at Linux's target (LIO).
//
// LIO takes a registered session for none if another session of the same initiator has the
// reservation (drivers/target/target_core_pr.c, core_scsi3_pr_seq_non_holder). Then the session can
// take the LUN neither from an earlier process of its node nor from a guard that its node
// registered. So a session that is to take a LUN there has the name that the holder has not. Other
// targets tell the sessions of one initiator apart, and see the first name alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "iscsi/logical_unit.h"
#include "iscsi/session.h"

namespace berth::iscsi {

// The second name is the first one with this text behind it. A node's name never contains a ':', so
// the two names of a node are those of no other node.
inline constexpr std::string_view kSecondName = ":2";

// Logs in by the second name in place of `session` if the target is LIO and the LUN's reservation
// is that of a session with the name in `login`, which then is the second one. Else nothing is
// done. Errors are those of Session::LogIn and of reading the reservation.
base::Status AvoidHoldersName(std::unique_ptr<Session>& session, LoginOptions& login, uint16_t lun,
                              Deadline deadline);

}  // namespace berth::iscsi
