"""The passes over `plan`: registers, order, streams, chains, ticks."""
