"""The page that `penstock-view` writes: a program's tasks, memory and time line."""
