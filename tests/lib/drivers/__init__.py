"""CSI drivers that others wrote, in the folder that BERTH_DRIVERS names; each runs as a process beside `berth up`."""
