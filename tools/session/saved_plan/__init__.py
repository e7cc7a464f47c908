"""
Compiled programs on disk: a file holds the text of the launch program, the source of
its kernels, the arrays of its variables, and a manifest.

All that is run is made from the program's text, or found in the cache of this machine,
where it was made from the same text: see `penstock.tools.session.saved_plan.derived`.
"""
