"""The engine of the retrieval scores: what streams over the similarities, a tile at a time.

Read `_problem` first: it turns what the user passed into a `Retrieval`, which is all that the others take. Then
`_ranking`, the door: `rank(problem, ...)` decides what has to be looked at, looks once and answers. Under it, in
the order in which a value passes through:

    _tiles        one product of two blocks, with equal bits for equal pairs, and the workers that share the cores
    _sweep        every tile once, shown to whoever observes
    _first_hit    observes: how many wrong items come before the first right one
    _nearest      observes: which of the first places are right
    _candidates   keeps and sorts what `_nearest` may still need

Nothing outside `nearer.evaluation` imports from here, and no array of queries × database is ever made.
"""
