#include "csi_rules.h"

#include <array>

namespace berth::doubles {
namespace {

constexpr auto kRules = std::to_array<Rule>({
    // Every call
    {"hangs", "Timeouts", "a call is answered",
     "waits until the caller gives up, then does nothing", true},
    {"late", "Timeouts", "a cancelled call may still take place",
     "does it after the caller gave up", true},
    {"dies", "Timeouts", "a call is answered", "does it, and ends in place of answering", true},
    {"loses-answers", "Error Scheme", "OK when it was done", "does it and answers UNAVAILABLE",
     true},
    {"aborted-forever", "Error Scheme", "ABORTED only while another call for the volume is pending",
     "answers ABORTED, always", true},
    {"unknown-code", "Error Scheme", "the status code is one of gRPC's", "fails with code 42",
     true},
    {"error-without-message", "Error Scheme", "an error has a message", "leaves it empty"},
    {"error-with-details", "Error Scheme", "an error has no details", "sends some"},
    {"invalid-utf8", "Size Limits", "strings are UTF-8", "puts a byte 0xff into volume_context"},

    // Identity
    {"name-empty", "GetPluginInfo", "name is required", "leaves it empty"},
    {"name-no-domain", "GetPluginInfo", "name is a domain name of at most 63 characters",
     "calls itself '../other driver'"},
    {"never-ready", "Probe", "a driver becomes ready or says why not", "is never ready"},
    {"capabilities-change", "GetPluginCapabilities",
     "the same capabilities from every instance of a version", "other ones at each call"},

    // Controller: volumes
    {"create-not-idempotent", "CreateVolume", "the same name gives the same volume",
     "makes another volume at each call"},
    {"two-names-one-volume", "CreateVolume", "a volume is identified by its id",
     "gives the first volume's id to every name"},
    {"create-ignores-conflict", "CreateVolume", "ALREADY_EXISTS for a name with other properties",
     "answers with the volume as it is"},
    {"create-ignores-missing", "CreateVolume", "INVALID_ARGUMENT without capabilities",
     "makes a volume"},
    {"capacity-below-required", "CreateVolume", "capacity_bytes is within the range",
     "half of what is required"},
    {"capacity-above-limit", "CreateVolume", "capacity_bytes is within the range",
     "twice what is allowed"},
    {"capacity-negative", "CreateVolume", "capacity_bytes is not negative", "-1"},
    {"empty-volume-id", "CreateVolume", "volume_id is required", "leaves it empty"},
    {"oversized-volume-id", "Size Limits", "a string has at most 128 bytes", "an id of 2000"},
    {"oversized-context", "Size Limits", "a map has at most 4 KiB", "a context of 64 KiB"},
    {"ignores-source", "CreateVolume", "a volume from a source has its content, and says so",
     "makes an empty one"},
    {"other-source", "CreateVolume", "content_source is the one asked for", "names another"},
    {"wrong-topology", "CreateVolume", "the volume is reachable where it is required",
     "puts it elsewhere"},
    {"delete-twice-fails", "DeleteVolume", "OK for a volume that is gone", "NOT_FOUND"},
    {"delete-keeps", "DeleteVolume", "OK when the volume is gone", "keeps it"},
    {"deletes-in-use", "DeleteVolume", "a volume in use that it refuses to delete keeps its data",
     "refuses, and deletes the data"},
    {"confirms-anything", "ValidateVolumeCapabilities", "NOT_FOUND for no volume", "confirms"},
    {"accepts-bad-token", "ListVolumes", "ABORTED for a token that it never gave", "lists"},
    {"endless-pages", "ListVolumes", "the last page has no next_token", "every page names another"},
    {"free-negative", "GetCapacity", "available_capacity is not negative", "-1"},
    {"expand-below", "ControllerExpandVolume", "capacity_bytes is within the range",
     "says that the size is the old one"},

    // Controller: attaching
    {"attaches-twice", "ControllerPublishVolume",
     "FAILED_PRECONDITION for a second node of a single-node volume", "attaches it there, too"},
    {"attaches-anywhere", "ControllerPublishVolume", "NOT_FOUND for an unknown node", "OK"},
    {"publish-context-changes", "ControllerPublishVolume", "the same call gives the same context",
     "another at each call"},
    {"oversized-publish-context", "Size Limits", "a map has at most 4 KiB", "a context of 64 KiB"},
    {"detach-twice-fails", "ControllerUnpublishVolume", "OK for what is not attached", "NOT_FOUND"},
    {"detach-lies", "ControllerUnpublishVolume", "OK when it is detached", "leaves it attached"},

    // Controller: snapshots
    {"snapshot-not-idempotent", "CreateSnapshot", "the same name gives the same snapshot",
     "makes another at each call"},
    {"snapshot-of-nothing", "CreateSnapshot", "NOT_FOUND for no source", "OK"},
    {"snapshot-without-time", "CreateSnapshot", "creation_time is required", "leaves it out"},

    // Node
    {"node-id-empty", "NodeGetInfo", "node_id is required", "leaves it empty"},
    {"node-id-too-long", "NodeGetInfo", "node_id has at most 256 bytes", "one of 2500"},
    {"max-volumes-negative", "NodeGetInfo", "max_volumes_per_node is not negative", "-1"},
    {"topology-key-invalid", "NodeGetInfo", "a segment's key is [prefix/]name", "'a b//c'"},
    {"stage-twice-mounts-twice", "NodeStageVolume", "the same call again changes nothing",
     "mounts over the mount"},
    {"stage-ignores-conflict", "NodeStageVolume", "ALREADY_EXISTS with another capability", "OK"},
    {"stage-unknown", "NodeStageVolume", "NOT_FOUND for no volume", "makes one"},
    {"unstage-leaves-mount", "NodeUnstageVolume", "OK when nothing is mounted", "leaves the mount"},
    {"unstage-twice-fails", "NodeUnstageVolume", "OK for what is not staged", "NOT_FOUND"},
    {"publishes-nothing", "NodePublishVolume", "OK when the volume is at target_path",
     "leaves an empty folder"},
    {"mounts-elsewhere", "NodePublishVolume", "OK when the volume is at target_path",
     "mounts it beside"},
    {"publishes-other-volume", "NodePublishVolume", "the volume at target_path is volume_id",
     "mounts another one"},
    {"ignores-readonly", "NodePublishVolume", "readonly is honoured", "mounts it writable"},
    {"publish-twice-mounts-twice", "NodePublishVolume", "the same call again changes nothing",
     "mounts over the mount"},
    {"publish-ignores-conflict", "NodePublishVolume", "ALREADY_EXISTS with other arguments", "OK"},
    {"publish-unstaged", "NodePublishVolume", "FAILED_PRECONDITION without staging", "OK"},
    {"unpublish-leaves-mount", "NodeUnpublishVolume", "OK when nothing is mounted",
     "leaves the mount"},
    {"unpublish-leaves-target", "NodeUnpublishVolume", "the driver deletes target_path",
     "leaves the folder"},
    {"unpublish-twice-fails", "NodeUnpublishVolume", "OK for what is not published", "NOT_FOUND"},
    {"node-expand-below", "NodeExpandVolume", "capacity_bytes is within the range", "one byte"},
    {"stats-negative", "NodeGetVolumeStats", "numbers are not negative", "-1 in total"},
    {"stats-of-elsewhere", "NodeGetVolumeStats", "NOT_FOUND where the volume is not", "OK"},
});

}  // namespace

std::span<const Rule> Rules() { return kRules; }

}  // namespace berth::doubles
