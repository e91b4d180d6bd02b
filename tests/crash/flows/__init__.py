"""The flows that the crash tests walk. Each begins and ends with an empty system; a process may be killed at any
point of it.

A flow is a function that gets a Survivor. Every step is repeated until it succeeds, so every step must be safe to
repeat. A flow with `beside_double` also has the CSI driver double, one with `beside_agent` a block agent, and one
with `beside_handler` a CRUST handler. STORAGE_FLOWS are those with a real storage (`beside_storage`). SWITCH_FLOWS are those
of a provisioner whose place another program takes (`beside_controller`).
"""
from flows.attaching import attach, fail_over
from flows.blocks import block, block_cluster
from flows.copies import clone, group_snapshot, kept_snapshot, populator, snapshot
from flows.flexvolumes import flex
from flows.leaders import given_up, taken_over
from flows.lives import deletion, expansion, host_mount, inline, main_job
from flows.sandboxes import crust
from flows.storages import iscsi, iscsi_fail_over, rbd, rbd_fail_over
from flows.utilities import helper_mount

FLOWS = {flow.__name__: flow for flow in (main_job, deletion, inline, host_mount, expansion, snapshot, kept_snapshot,
                                          group_snapshot, clone, populator, fail_over, attach, helper_mount, flex, block,
                                          block_cluster, crust)}

STORAGE_FLOWS = {flow.__name__: flow for flow in (rbd, rbd_fail_over, iscsi, iscsi_fail_over)}

SWITCH_FLOWS = {flow.__name__: flow for flow in (taken_over, given_up)}
