"""The passes over `regst`: aliases, slots, memory."""
