"""The executors of one job, several jobs and streams."""
