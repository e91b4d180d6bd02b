"""The flows that are walked. Each begins with nothing and ends with nothing, and may be killed anywhere in between.

A flow is a function of a Survivor: every step is repeated until it succeeds, so it must bear that. One with
`beside_double` has the CSI driver double beside the shipped driver, one with `beside_agent` a block agent, one with
`beside_handler` a CRUST handler.
"""
from flows.attaching import attach, fail_over
from flows.blocks import block, block_cluster
from flows.copies import clone, kept_snapshot, populator, snapshot
from flows.flexvolumes import flex
from flows.lives import deletion, expansion, host_mount, inline, main_job
from flows.sandboxes import crust
from flows.utilities import helper_mount

FLOWS = {flow.__name__: flow for flow in (main_job, deletion, inline, host_mount, expansion, snapshot, kept_snapshot,
                                          clone, populator, fail_over, attach, helper_mount, flex, block,
                                          block_cluster, crust)}
