"""Messages between the processes of several ranks."""
