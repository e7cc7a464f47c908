"""
Faults planted in plans and programs that are right, and what becomes of them.

A *subject* is a plan or a program of random jobs, with what these mean in NumPy. A
*fault* is one change of its registers, aliases, slots, strides, offsets, blocks,
chunks, control edges, events, views or jobs, or of the bodies of loops and conditions
in these. Either a verifier refuses the mutant, or a
machine whose memory is poisoned (`machine`) must make the same of it as NumPy, in any
order: all else is a hole in the verifiers.

    python test/unit/planted_faults 10000 SEED
    python test/unit/planted_faults 2000 SEED bodies
"""
