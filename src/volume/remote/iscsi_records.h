// The records of open-iscsi, its files of portals and logins, and what is written into them. Pure.
//
//   send_targets/ADDRESS,PORT/st_config          how a portal is asked for its targets
//   nodes/TARGET/ADDRESS,PORT,GROUP/INTERFACE    how a target is logged in to
//
// They are in /etc/iscsi or /var/lib/iscsi, by the build of open-iscsi.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace berth::volume {

// The members of the Secret, such as "node.session.auth.password".
using ChapSecrets = std::map<std::string, std::string>;

// "10.0.0.7" gives "10.0.0.7:3260".
std::string WithIscsiPort(std::string_view portal);
// "10.0.0.7:3260" gives "10.0.0.7,3260".
std::string IscsiRecordName(const std::string& portal);
// The path of the record of a login, with a pattern for the portal's group.
std::string NodeRecordPattern(const std::string& target, const std::string& portal,
                              std::string interface);

// The lines of a record. `secrets` is null if CHAP is not asked for.
std::string MakeDiscoveryLines(const ChapSecrets* secrets);
std::string MakeNodeLines(const ChapSecrets* secrets);

// Scripts of sh. $1: the file with the lines; $2: the record, as a pattern.
inline constexpr char kAppendToRecord[] =
    R"(umask 077; found=1; for record in /etc/iscsi/$2 /var/lib/iscsi/$2; do )"
    R"([ -f "$record" ] && cat "$1" >>"$record" && found=0; done; )"
    R"([ $found = 0 ] || echo "open-iscsi has no record $2" >&2; exit $found)";
// $1: the name of the portal's record.
inline constexpr char kDropDiscovery[] =
    R"(rm -rf "/etc/iscsi/send_targets/$1" "/var/lib/iscsi/send_targets/$1")";

}  // namespace berth::volume
