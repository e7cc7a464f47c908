"""The executable as plain data: actors, registers, tables."""
