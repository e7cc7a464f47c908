"""The passes over `launch`: chains, waves, schedules, autotuning."""
