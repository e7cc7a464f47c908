"""The command-line tools, and what needs both the compiler and the executor."""
