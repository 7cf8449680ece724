"""How little memory a program needs: the smallest limit at which it still does its work.

`search` decides which limits to try and what the trials show, `answer` reads a stored run, `figure`
draws it. A limit is the policy memory_max of `try`, and a fit is a run of `try` whose levels of
that policy are a grid of which the search opens the points.
"""
