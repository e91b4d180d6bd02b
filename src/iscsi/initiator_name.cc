#include "iscsi/initiator_name.h"

#include <algorithm>

#include "iscsi/reservations.h"

namespace berth::iscsi {
namespace {

constexpr std::chrono::seconds kFarewellTime{2};

// Whether the session that has the reservation has this name.
base::StatusOr<bool> HolderIs(LogicalUnit& unit, const std::string& initiator) {
  Reservations reservations(unit, KeyOwner(""));
  ASSIGN_OR_RETURN(const Reservation held, reservations.Read());
  if (held.type == ReservationType::kNone) return false;
  ASSIGN_OR_RETURN(const auto registrations, reservations.ReadFullStatus());
  return std::ranges::any_of(registrations, [&](const Registration& one) {
    return one.key == held.key && one.initiator == initiator;
  });
}

}  // namespace

base::Status AvoidHoldersName(std::unique_ptr<Session>& session, LoginOptions& login, uint16_t lun,
                              Deadline deadline) {
  SessionUnit unit(*session, lun, deadline);
  ASSIGN_OR_RETURN(const bool lio, IsLio(unit));
  if (!lio) return base::OkStatus();
  ASSIGN_OR_RETURN(const bool same, HolderIs(unit, login.initiator));
  if (!same) return base::OkStatus();
  LoginOptions second = login;
  second.initiator += kSecondName;
  session->LogOut(std::min(deadline, std::chrono::steady_clock::now() + kFarewellTime));
  ASSIGN_OR_RETURN(session, Session::LogInAt(second, session->portal(), deadline));
  login = std::move(second);
  return base::OkStatus();
}

}  // namespace berth::iscsi
