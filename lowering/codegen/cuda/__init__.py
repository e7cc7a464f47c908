"""Source text that Numba compiles for devices: functions of a grid of threads."""
