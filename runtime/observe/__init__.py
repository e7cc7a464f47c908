"""The event log, metrics, traces and kernel timing."""
